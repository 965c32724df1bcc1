#pragma once

void record_in_archive();
