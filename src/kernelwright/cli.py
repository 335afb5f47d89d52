"""The command line: parse, call one function, print.

Exit status: 0 done (also when the answer is the baseline), 1 a kernel failed the judge or the fault is ours,
2 the input cannot be used, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.table import Table
from rich.text import Text

from kernelwright import analysis, api, capture, codec, doctor, environment, experts, languages, problems, report, run
from kernelwright.commands.ablate import ablate_command
from kernelwright.commands.authors import author_options, authors_of
from kernelwright.commands.bench import bench_command
from kernelwright.commands.env import env_command
from kernelwright.commands.export import export_command
from kernelwright.commands.gemm import gemm_command
from kernelwright.commands.hacks import hacks_command
from kernelwright.commands.mcp import mcp_command, skill_command
from kernelwright.commands.mutate import mutate_command
from kernelwright.commands.options import MOST_SEED, Seconds, err, out, source_options
from kernelwright.commands.replay import replay_command
from kernelwright.commands.selftest import selftest_command
from kernelwright.commands.verify import verify_command
from kernelwright.console import Progress, admission_table, answer_tables, contender_table, graph_text
from kernelwright.errors import KernelwrightError, UserError, fault_of_machine
from kernelwright.graph import Capture
from kernelwright.judge.policies import POLICIES
from kernelwright.run import admitting
from kernelwright.run.outputs import FOLDER, RUNNER_UP
from kernelwright.run.result import Result, busy_note, verdict_of
from kernelwright.run.session import disturbed
from kernelwright.store import Store
from kernelwright.store.salvage import salvage
from kernelwright.types import DIGEST_TAG, Candidate, Failure, Record, digest

VERSION = metadata.version("kernelwright")
PAGE = "report.html"
BUG = "this is a fault of kernelwright: please report it with the output of --debug"

HAND = "next: write a kernel by hand; `kernelwright show ... --skeleton` starts one, `kernelwright judge` takes it"
LINE = 2000
"""So much is said of an error, on one line."""
GONE = frozenset((errno.EPIPE, errno.EIO))
"""What writing says when the reader, or the terminal, is not there any more."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="kernelwright")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """Give it an operation; get back the fastest kernel that survives the judge, and the evidence."""


@cli.command()
@source_options
@click.option("--device", type=click.Choice(api.DEVICES), default="cpu", show_default=True)
@click.option(
    "--budget",
    type=Seconds(),
    default="60s",
    show_default=True,
    help="Time for searching: 60s, 5m, 1h; preparing and the final judgements come on top.",
)
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), help="Where results go  [default: kernelwright-out/NAME]"
)
@click.option(
    "--seed", type=click.IntRange(0, MOST_SEED), help="Fixes what is proposed; the default goes on from the last run."
)
@author_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def optimize(
    source: str, options: dict[str, Any], device: str, budget: float, folder: Path | None, seed: int | None,
    authoring: dict[str, Any], as_json: bool,
) -> None:  # fmt: skip
    """Find the fastest kernel for SOURCE that survives the judge.

    SOURCE is a built-in problem's name (see `kernelwright problems`), a Python file that defines Model, get_inputs
    and get_init_inputs, or file.py:function with one --input for each argument.

    With --model or --author-command kernels are also written by language models, with what the experts found as seeds.

    Ctrl-C keeps everything judged so far; the same command goes on from there.
    """
    authors = authors_of(authoring, device)
    with Progress(err, budget_s=budget) as progress:
        result = api.optimize(
            source, device=device, budget_s=budget, out=folder, seed=seed, authors=authors,
            on_step=progress.step, on_event=progress.event, **options,
        )  # fmt: skip
    folder = folder or Path("kernelwright-out") / result.problem.name
    _give(result, folder, as_json=as_json)
    if not result.rows and result.stopped == "finished" and not as_json:
        out.print(HAND, soft_wrap=True)
    if result.stopped == "interrupted":
        sys.exit(130)


@cli.command(name="judge")
@source_options
@click.argument("kernel_file", type=click.Path(path_type=Path))
@click.option(
    "--policy", type=click.Choice(sorted(POLICIES)), default="report", show_default=True, help="How thoroughly."
)
@click.option(
    "--device",
    type=click.Choice(api.JUDGED_ON),
    default=None,
    help="emulated: CUDA C++ on the CPU, right or wrong without a time  [default: what the file is for]",
)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="Keep the record in this folder's store.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
def judge_command(
    source: str, options: dict[str, Any], kernel_file: Path, policy: str, device: str | None, folder: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Judge KERNEL_FILE, a kernel that a person wrote, against SOURCE.

    KERNEL_FILE is C++ with one extern "C" function whose parameters are named as the problem's tensors, CUDA C++
    (.cu) with a line such as `// kernelwright-launch: NAME grid=128 block=256`, or Python that defines ModelNew (or a
    function of the reference's name): witnessed, since its own code runs where it is timed. `kernelwright show SOURCE
    --skeleton` (and `--language cuda`) prints one to start from. With `--device emulated` CUDA C++ is judged without a
    GPU: whether it is right, never how fast. Exit status 0: it passed, 1: it did not.
    """
    with Progress(err) as progress:
        record = api.judge_kernel(
            source, kernel_file, device=device or "", policy=policy, out=folder, on_step=progress.step,
            on_event=progress.event, **options,
        )  # fmt: skip
    click.echo(codec.dumps(record)) if as_json else _print_record(record)
    if folder and not as_json and not disturbed(record):
        key = digest(record).removeprefix(DIGEST_TAG)[:12]
        out.print(f"record: {key}; `kernelwright verify {key} --out {folder}` judges it again", soft_wrap=True)
    sys.exit(0 if record.passed else 1)


@cli.command(name="problems")
@click.option(
    "--admit",
    "folder",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR",
    help="Instead: try answers without work on every task file in DIR, and say where they would pass.",
)
@click.option("--eval", "evaluation", is_flag=True, help="With --admit: call .eval() on the modules before use.")
@click.option(
    "--deadline", type=Seconds(), default="120s", show_default=True, help="With --admit: the most one file may take."
)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def problems_command(folder: Path | None, evaluation: bool, deadline: float, as_json: bool) -> None:
    """List the built-in problems, or say which tasks of a folder are worth judging on.

    A task is weak where zeros, a constant, a copy of an input, its first row, a mean, another draw's answer or
    rounded operands would pass for its answer. Exit status 1 when a task of the folder is weak or cannot be used.
    """
    if folder:
        _admit(folder, evaluation, deadline, as_json=as_json)
        return
    entries = [problems.get(name) for name in problems.names()]
    if as_json:
        click.echo(
            json.dumps(
                [{n: getattr(e, n) for n in ("name", "group", "description", "model")} for e in entries], indent=1
            )
        )
        return
    table = Table(show_edge=False)
    for column in ("name", "group", "what", "shape from"):
        table.add_column(column)
    for entry in entries:
        table.add_row(entry.name, entry.group, entry.description, entry.model)
    out.print(table)


@cli.command(short_help="Show what SOURCE is, and which experts can work on it.")
@source_options
@click.option("--reference", is_flag=True, help="Print the reference's source.")
@click.option("--graph", "show_graph", is_flag=True, help="Print the operator graph.")
@click.option("--skeleton", is_flag=True, help="Print a kernel file to start from.")
@click.option("--language", type=click.Choice(["cpp", "cuda"]), default="cpp", show_default=True, help="Of --skeleton.")
def show(
    source: str, options: dict[str, Any], reference: bool, show_graph: bool, skeleton: bool, language: str
) -> None:
    """Show what SOURCE is: its tensors, and which experts can work on it."""
    with Progress(err) as progress:
        captured = capture.load(source, on_event=progress.step, **options)
    if reference:
        click.echo("\n".join(file.text for file in captured.problem.reference))
    elif skeleton:
        click.echo(languages.skeleton(captured.problem, language=language))
    elif show_graph:
        click.echo(graph_text(captured))
    else:
        _print_problem(captured)


@cli.command(name="report", short_help="Print what is known in FOLDER; write its page again.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--html", "page", type=click.Path(path_type=Path), help="Where to write the page  [default: FOLDER/report.html]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def report_command(folder: Path, page: Path | None, as_json: bool) -> None:
    """Print what is known in FOLDER (an --out folder), and write its HTML report again.

    Where the folder holds several problems, or one on several targets, the latest gets the page and each other one
    a page of its own beside it.
    """
    with Store(folder / api.STORE, create=False) as store:
        results = run.recall(store)
    if not results:
        fix = "run `kernelwright optimize` with this --out first; `kernelwright verify` judges single records again"
        raise UserError(f"{folder} holds no optimisation", fix)
    page = page or folder / PAGE
    for number, result in enumerate(results, 1):
        last = number == len(results)
        if len(results) > 1 and not as_json:
            versions = ", ".join(f"{name} {version}" for name, version in result.target.toolchain)
            head = (
                f"{result.problem.name} on {result.target.architecture}, {result.target.threads} threads ({versions})"
            )
            out.print(Text(head, "bold"), soft_wrap=True)
        beside = page.with_name(f"{page.stem}-{number}{page.suffix}")
        _give(result, folder, as_json=as_json, page=page if last else beside, best=last)


@cli.command(name="doctor", short_help="Say what this machine has and what is missing.")
@click.option("--store", type=click.Path(path_type=Path), help="Check this store file as well.")
@click.option(
    "--salvage",
    "fresh",
    type=click.Path(path_type=Path),
    help="Copy what can be trusted of --store into this new file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor_command(store: Path | None, fresh: Path | None, as_json: bool) -> None:
    """Say what this machine has, what is missing, and the command that mends it.

    Exit status 1 when something that kernelwright needs is missing.
    """
    if fresh:
        if store is None:
            raise UserError("--salvage needs the damaged file", "name it with --store")
        saved = salvage(store, fresh)
        out.print(
            f"{fresh}: {saved.records} records, {saved.values} values, {saved.blobs} blobs; {saved.lost} rows were lost"
        )
        return
    found = doctor.findings(store)
    if as_json:
        click.echo(json.dumps([codec.to_data(finding) for finding in found], indent=1))
    else:
        marks = {"ok": Text("ok", "green"), "optional": Text("--", "yellow"), "missing": Text("no", "bold red")}
        for finding in found:
            out.print(marks[finding.state], f"{finding.subject:<10} {finding.found}", soft_wrap=True)
            if finding.fix:
                out.print(f"   fix: {finding.fix}", soft_wrap=True, markup=False)
    sys.exit(1 if any(finding.state == "missing" for finding in found) else 0)


@cli.command(name="analyze", short_help="Say what a CUDA kernel's code is like, and what to try.")
@click.argument("kernel", metavar="KERNEL")
@click.option("--arch", "architecture", default="sm_90a", show_default=True, help="sm_80, sm_90a, sm_100 ...")
@click.option("--block", type=click.IntRange(1, 1024), help="Threads of a block  [default: what the file says]")
@click.option(
    "--profile", "command", metavar="COMMAND", help="Profile the kernels that COMMAND launches with ncu, too."
)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="The folder whose store holds the candidate.")
@click.option("--json", "as_json", is_flag=True, help="Print the analysis as JSON.")
def analyze_command(
    kernel: str, architecture: str, block: int | None, command: str | None, folder: Path | None, as_json: bool
) -> None:
    """Say what KERNEL's code is like: registers, occupancy, instructions, accesses, and what to try.

    KERNEL is a .cu file, which is compiled first, a .cubin, or the digest of a candidate in the store of --out.
    Neither a GPU nor a driver is needed, except for --profile.
    """
    if folder:
        with Store(folder / api.STORE, create=False) as store:
            candidate = store.get(kernel)
            if not isinstance(candidate, Candidate):
                raise UserError(f"{kernel} is no candidate", "give a candidate's digest, as reports print it")
            problem = store.get(candidate.problem)
        found = analysis.analyze_candidate(problem, candidate, architecture=architecture)
    else:
        found = analysis.analyze(Path(kernel), architecture=architecture, block=block)
    rules = analysis.profile(shlex.split(command)) if command else ()
    if as_json:
        data = codec.to_data(found)
        click.echo(json.dumps({**data, "profile": codec.to_data(rules)} if command else data, indent=1))
        return
    for line in analysis.lines(found):
        out.print(line, markup=False, soft_wrap=True)
    for rule in rules:
        gain = f"about {rule.speedup_percent:.0f} %: " if rule.speedup_percent else ""
        out.print(f"ncu [{rule.name}] {rule.kernel}: {gain}{rule.text}", markup=False, soft_wrap=True)


for command in (
    ablate_command, bench_command, env_command, export_command, hacks_command, mcp_command, mutate_command,
    replay_command, selftest_command, gemm_command, skill_command, verify_command,
):  # fmt: skip
    cli.add_command(command)


# ------------------------------------------------------------------------------ pieces


def _admit(folder: Path, evaluation: bool, deadline_s: float, *, as_json: bool) -> None:
    files = admitting.task_files(folder)
    found = []
    with (
        Progress(err) as progress,
        admitting.Admissions(threads=environment.threads(), deadline_s=deadline_s, evaluation=evaluation) as admissions,
    ):
        for file, admission in admissions.every(tuple(map(str, files)), on_event=progress.step):
            found.append((file, admission))
    if as_json:
        click.echo(json.dumps([admitting.plain(file, admission) for file, admission in found], indent=1))
    else:
        out.print(admission_table(found))
    sys.exit(1 if any(admission.state in ("weak", "refused") for _, admission in found) else 0)


def _give(result: Result, folder: Path, *, as_json: bool, page: Path | None = None, best: bool = True) -> None:
    page = page or folder / PAGE
    try:
        page.write_text(report.html(result, version=VERSION), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{page} cannot be written: {error.strerror}", "name another page with --html") from error
    if as_json:
        click.echo(codec.dumps(result))
        return
    for part in answer_tables(result, report.lines(result.rows), width=out.width):
        out.print(part, soft_wrap=isinstance(part, Text))
    if best and (folder / FOLDER).is_dir():
        out.print(f"kernel: {folder / FOLDER}", soft_wrap=True)
    elif best and (folder / RUNNER_UP).is_dir():
        out.print(f"kernel: {folder / RUNNER_UP} (not shown to be faster than every baseline)", soft_wrap=True)
    out.print(f"report: {page}", soft_wrap=True)


def _print_record(record: Record) -> None:
    if isinstance(record.outcome, Failure):
        where = f" at {record.outcome.location}" if record.outcome.location else ""
        out.print(
            Text(f"FAILED {record.outcome.stage}, {record.outcome.kind}{where}: {record.outcome.message}", "bold red"),
            soft_wrap=True,
        )
        if record.outcome.detail:
            out.print(record.outcome.detail.strip(), markup=False)
        return
    for check in record.outcome.verdict.checks:
        out.print(
            Text("held  ", "green") if check.passed else Text("FAILED", "bold red"),
            f"{check.name}: {check.evidence}",
            soft_wrap=True,
        )
    if record.passed and not record.outcome.measurements:
        for note in record.outcome.notes:
            out.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
        out.print(Text("The kernel survives the emulated judge; no time was taken.", "bold"))
    elif record.passed:
        out.print(contender_table(report.contenders(record), width=out.width))
        out.print(Text(report.noise_text(record), style="dim"))
        for note in filter(None, (*record.outcome.notes, busy_note(record))):
            out.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
        _, why = verdict_of(record, "the kernel")
        out.print(Text(f"{why[:1].upper()}{why[1:]}.", "bold"))


def _print_problem(captured: Capture) -> None:
    problem = captured.problem
    out.print(Text(problem.name, "bold") + (f": {problem.description}" if problem.description else ""))
    for spec in problem.arguments:
        out.print(f"  {spec.role:<10} {report.tensor_text(spec)}", markup=False)
    for axis in problem.axes:
        places = ", ".join(f"{name}[{dim}]" for name, dim in axis.places)
        out.print(f"  axis       {axis.name} = {axis.low}..{axis.high}: {places}", markup=False)
    work = f"{problem.flops:,} operations, " if problem.flops else ""
    out.print(f"  {work}at least {problem.min_bytes:,} bytes moved")
    if captured.graph is None:
        out.print(f"no graph: {captured.reason}", markup=False, soft_wrap=True)
        out.print(HAND, soft_wrap=True)
        return
    offer = experts.templates(problem, captured.graph, target=languages.detect_target())
    for template in offer.templates:
        out.print(f"expert {template.name}: {template.space.size()} schedules")
        for parameter in template.space.parameters:
            out.print(f"  {parameter.name}: {', '.join(map(str, parameter.values))}")
    for refusal in offer.refusals:
        out.print(f"not done: {refusal.text}", markup=False, soft_wrap=True)
    if not offer.templates:
        out.print(HAND, soft_wrap=True)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    _open_closed_streams()
    try:
        with _ended_like_ctrl_c():
            # --debug is welcome anywhere on the line.
            cli.main([*(["--debug"] if debug else []), *(a for a in given if a != "--debug")], standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        err.print("interrupted; the same command goes on from here")
        sys.exit(130)
    except UserError as error:
        _fail(error, str(error), debug=debug, status=2)
    except KernelwrightError as error:
        _fail(error, str(error), debug=debug, status=1)
    except OSError as error:
        if error.errno in GONE:
            _leave_quietly()
        known = fault_of_machine(error)
        text = str(known) if known else f"{type(error).__name__}: {error}; {BUG}"
        _fail(error, text, debug=debug, status=2 if known else 1)
    except Exception as error:  # noqa: BLE001  (the last resort: one line, and the traceback on demand)
        _fail(error, f"{type(error).__name__}: {error}; {BUG}", debug=debug, status=1)
    sys.exit(0)


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Lets a request to end, and a terminal that closes, keep what was judged, as Ctrl-C does."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, handler in before.items() if handler is signal.SIG_DFL]  # not where nohup ignores it
    for number in taken:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _open_closed_streams() -> None:
    """Fills the places of standard streams that were closed, before a channel to a worker takes one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: SIM115  (open until the process ends)


def _leave_quietly() -> NoReturn:
    """Ends as other programs do when nobody reads their output any more, such as before `| head`."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())  # or Python would complain when it flushes at the end
    sys.exit(128 + signal.SIGPIPE)


def _fail(error: Exception, text: str, *, debug: bool, status: int) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    # What the user's code says may hold what a terminal obeys.
    line = "".join(character if character.isprintable() else "?" for character in " ".join(text.split())[:LINE])
    click.echo(f"kernelwright: {line}", err=True)
    sys.exit(status)
