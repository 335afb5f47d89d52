// Assertions are for debugging; here they are left out, as with NDEBUG.
#pragma once
#define assert(condition) ((void)0)
