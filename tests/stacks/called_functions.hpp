// What the tests of named stacks call. Outside of any namespace, so that the names are short.
#pragma once

void scope_by_macro();
// Four scopes: by macro, by name, by hand, and in a function that is inlined.
void middle();
void outer();
// scope_by_macro() below so many calls of itself.
void descend(int levels);
