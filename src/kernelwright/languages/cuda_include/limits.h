#pragma once
#include "kernelwright_limits.h"
