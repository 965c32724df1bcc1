// The one source of the program that has the operators.
#include <stepprof/record/operator_new.hpp>
