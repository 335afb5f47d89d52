// Everything stands in kernelwright_emulation/device.hpp, which comes before every source.
#pragma once
