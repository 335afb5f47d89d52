"""`kernelwright env`: the judge as an environment for reinforcement learning, served or as a package.

Not here: the environment (gym).
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import click

from kernelwright import api, environment, problems
from kernelwright.commands.options import err, out
from kernelwright.gym import Gym, GymSettings
from kernelwright.gym.packing import write_package
from kernelwright.gym.server import Server
from kernelwright.judge.policies import POLICIES

PORT = 8731
GRACE_S = 120.0
"""For the kernel that is being judged when the server is to stop."""


@click.command(name="env", short_help="Serve the judge as a reinforcement learning environment.")
@click.option(
    "--package",
    "package",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Instead: write an environment package for the verifiers library, which asks a server.",
)
@click.option(
    "--problem",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="A built-in or a file; can be repeated  [default: all]",
)
@click.option("--device", type=click.Choice(api.JUDGED_ON), default="cpu", show_default=True)
@click.option(
    "--policy",
    type=click.Choice(sorted(POLICIES)),
    default="screen",
    show_default=True,
    help="How thoroughly; gains that seem too good are judged under measure all the same.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Others need KERNELWRIGHT_ENV_TOKEN.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 for any.")
@click.option("--waiting", type=click.IntRange(1), default=256, show_default=True, help="The most kernels that wait.")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("kernelwright-out/env"),
    show_default=True,
    help="Keeps the records: what was judged is not judged again.",
)
def env_command(
    package: Path | None, sources: tuple[str, ...], device: str, policy: str, host: str, port: int, waiting: int,
    folder: Path,
) -> None:  # fmt: skip
    """Serve the judge as a reinforcement learning environment, over HTTP and JSON.

    Trainers ask for problems and guides, submit kernels or whole replies, and get verdicts and rewards. Kernels are
    judged one after the other by one judge, whoever sends them; only sealed kernels are taken. Ctrl-C ends it after the
    kernel that is being judged; what waits is given back.
    """
    if package is not None:
        for path in write_package(package):
            out.print(str(path), markup=False, soft_wrap=True)
        out.print(f"next: pip install -e {package}", markup=False, soft_wrap=True)
        return
    settings = GymSettings(
        sources=sources or problems.names(), device=device, policy=policy, most_waiting=waiting
    )  # fmt: skip
    gym = Gym(settings, folder)
    with Server(gym, host=host, port=port, token=environment.key("KERNELWRIGHT_ENV_TOKEN")) as server:
        gym.start()
        listening = threading.Thread(target=server.serve_forever, name="http", daemon=True)
        listening.start()
        out.print(f"{server.url}/v1/ serves {len(gym.sources)} problems on {device}; Ctrl-C stops", soft_wrap=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        err.print("stopping after the kernel that is being judged; Ctrl-C again stops at once")
        ended = gym.stop(grace_s=GRACE_S)
        server.shutdown()
        listening.join()
    out.print(f"{gym.judged} answered" + ("" if ended else "; the last kernel was left unjudged"))
