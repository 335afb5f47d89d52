#pragma once
#include "kernelwright_math.h"
