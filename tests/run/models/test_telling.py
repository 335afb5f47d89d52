"""What an author is told of a kernel: words that follow from the record and from the compiled code."""

from __future__ import annotations

import pytest
from tests.search.fake_judge import PROBLEM

from kernelwright.languages.devices import cuda_target
from kernelwright.run.models.kernels import HEADERS, candidate_of, shown
from kernelwright.run.models.telling import compiled

COLUMNS = """// kernelwright-launch: columns grid=1 block=32
extern "C" __global__ void columns(const float* __restrict__ x, float* __restrict__ out) {
    __shared__ float tile[32 * 32];
    for (int i = 0; i < 32; ++i) tile[i * 32 + threadIdx.x] = x[i];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += tile[threadIdx.x * 32 + i];
    out[threadIdx.x] = sum;
}
"""


def test_the_compiled_code_tells_registers_spills_and_bank_conflicts() -> None:
    pytest.importorskip("cuda.core")
    candidate = candidate_of(PROBLEM, COLUMNS, language="cuda", author="somebody")
    text = compiled(PROBLEM, candidate, cuda_target("sm_90a"))
    assert "columns on sm_90a" in text
    assert "a thread, no spills" in text
    assert "occupancy        32 threads:" in text
    assert "at most 8 words of a bank at once" in text  # quarters of a warp, four words a thread
    assert "try [bank conflicts] kernel.cu:7: " in text


def test_a_kernel_for_the_processor_has_nothing_of_the_kind() -> None:
    code = 'extern "C" void rows(const float* x, float* out) { out[0] = x[0]; }\n'
    candidate = candidate_of(PROBLEM, code, language="cpp", author="somebody")
    assert compiled(PROBLEM, candidate, cuda_target("sm_90a")) == ""


def test_of_the_experts_headers_only_what_can_be_called_is_shown() -> None:
    code = '#include "simd.hpp"\nextern "C" void rows(const float* x, float* out) { out[0] = x[0]; }\n'
    candidate = candidate_of(PROBLEM, code, language="cpp", author="somebody")
    assert candidate.sources[1] == HEADERS[0]
    text = shown(candidate)
    assert text.startswith(code)
    assert "// simd.hpp can be included; functions in namespace kw: " in text
    assert {"load_part", "exp", "sum", "store_part"} <= set(text.rpartition(": ")[2].strip().split(", "))
    assert len(text) < 2000
