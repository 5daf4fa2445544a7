// SPDX-License-Identifier: Apache-2.0
// What a compiler is given that starts before there is a unit to compile (backends/cpu/prestarted_compiler.py): it
// reads what all units begin with, and waits for the rest.
#include "host.h"
#include "/dev/stdin"
