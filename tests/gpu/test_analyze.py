"""`kernelwright analyze` with a profile: ncu runs in a child process, and what it says is read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone
COUNT = 1 << 26
KERNEL = """
extern "C" __global__ void twice(const float* __restrict__ x, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}
"""
LAUNCH = """
import sys
from pathlib import Path
import torch
from kernelwright.judge.device import driver
from kernelwright.judge.device.cuda_executor import bare_executor
from kernelwright.judge.device.limits import Geometry

executor, count = bare_executor(), int(sys.argv[2])
module = driver.load_module(driver.compile_own(Path(sys.argv[1]).read_text(), executor.limits.architecture))
kernel = driver.kernel_of(module, "twice")[0]
x, out = (torch.empty(count, device="cuda") for _ in range(2))
packed = (x.data_ptr().to_bytes(8, "little"), out.data_ptr().to_bytes(8, "little"), count.to_bytes(4, "little"))
geometry = Geometry((count // 256, 1, 1), (256, 1, 1), (1, 1, 1), 0, False, False)
config = driver.configuration(geometry, int(torch.cuda.current_stream().cuda_stream))
driver.launch(config, kernel, driver.Parameters(packed), "twice")
torch.cuda.synchronize()
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    if shutil.which("ncu") is None:
        pytest.skip("there is no ncu on this machine")
    kernel, script = tmp_path / "twice.cu", tmp_path / "launch.py"
    kernel.write_text(KERNEL)
    script.write_text(LAUNCH)
    return kernel, script


@pytest.mark.usefixtures("target")
def test_a_kernel_is_analysed_and_profiled(files: tuple[Path, Path]) -> None:
    kernel, script = files
    command = f"{sys.executable} {script} {kernel} {COUNT}"
    asked = [sys.executable, "-m", "kernelwright", "analyze", str(kernel), "--profile", command]
    done = subprocess.run([*asked, "--json"], capture_output=True, text=True, timeout=500, check=False)
    if "ERR_NVGPUCTRPERM" in done.stderr:  # then clear words, behind the analysis that needs no counters
        assert "next best sources" in " ".join(done.stderr.split())
        plain = subprocess.run(asked, capture_output=True, text=True, timeout=500, check=False)
        assert plain.returncode == 2
        assert "registers" in plain.stdout
        return
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [one["symbol"] for one in data["kernels"]] == ["twice"]
    launches = [one for one in data["launches"] if one["kernel"].startswith("twice")]
    assert len(launches) == 1
    duration_us, rate = launches[0]["duration_us"], launches[0]["memory_bytes_per_s"]
    # 512 MiB through memory: no device of these architectures does 20 TB/s, or less than 0.1.
    assert 25.0 < duration_us < 5400.0
    assert 1e11 < rate < 2e13
    assert 0.5 < rate * duration_us * 1e-6 / (8 * COUNT) < 2.0
    rules = [rule for rule in data["profile"] if rule["kernel"].startswith("twice")]
    assert rules
    assert any(rule["text"] for rule in rules)
    assert any(name in rule["name"] for rule in rules for name in ("SOL", "Occupancy", "Bottleneck", "Stall"))
