from __future__ import annotations

from pathlib import Path

from kernelwright.languages import cubin
from kernelwright.languages.devices import cuda_target
from kernelwright.testing.languages import LanguageSuite
from kernelwright.types import Artifact, Launch, Target

GOOD = """\
#include <cstdint>

extern "C" __global__ void scale(const float* x, const float* weight, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i];
}
"""
ENDLESS = GOOD + (
    "__device__ constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; i++) s += i ^ (s << 1); return s; }\n"
    "template <int N, int K> struct Deep {\n"
    "  static constexpr long number = spin(200000 + N + K) + Deep<N - 1, K>::number; };\n"
    "template <int K> struct Deep<0, K> { static constexpr long number = 0; };\n"
    + "".join(f"static_assert(Deep<400, {k}>::number != 1);\n" for k in range(1, 30))
)


class TestCuda(LanguageSuite):
    language = "cuda"
    path = "kernel.cu"
    launch = Launch(grid=(1, 1, 1), block=(64, 1, 1))
    good = GOOD
    broken = (GOOD.replace("weight[i];", "weights[i];"), 5)
    mismatched = GOOD.replace("float* out", "double* out")
    forbidden = ('#include <cmath>\n#include "/etc/hostname"\n' + GOOD, "absolute paths")
    endless = ENDLESS
    option = ("fast_math", True)

    @classmethod
    def target(cls) -> Target:
        return cuda_target("sm_90a")

    def check_artifact(self, artifact: Artifact) -> None:
        built = cubin.read(Path(artifact.path))
        (kernel,) = built.kernels
        assert kernel.symbol == "scale"
        assert [p.size_bytes for p in kernel.parameters] == [8, 8, 8, 8]
        assert built.architecture == "sm_90"
        (resources,) = artifact.resources
        assert 4 <= resources.registers <= 32
        assert (resources.spill_bytes, resources.shared_bytes, resources.stack_bytes) == (0, 0, 0)
