// Nothing of it is for kernels, or it is built in (memcpy, memset).
#pragma once
