#pragma once
#include "kernelwright_integers.h"
