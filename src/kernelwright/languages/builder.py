"""A pool of build workers: candidates in, artifacts or failures out, in order.

The parent compiles nothing; its threads only wait for workers. Each worker lives in a jail: it reads the system, writes
one folder, has no network, and what it leaves there is copied, checked, into the cache.
Not here: what a worker does (worker.py), and the identity and place of results (cache.py).
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from kernelwright import environment
from kernelwright.errors import UserError, WorkerDied
from kernelwright.jail import Jail, preferred_engine
from kernelwright.languages import bounded, cache, checked, table
from kernelwright.languages.hardware import find_compiler
from kernelwright.process import DeadlineExceeded, Worker, WorkerKilled
from kernelwright.types import KILLED, Artifact, Candidate, Failure, Problem, Target, digest, replace

WORKER = "kernelwright.languages.worker"
PREPARING = "kernelwright.languages.preparing"
DEADLINE_S = 240.0
"""Two compiler runs and an inspection, each with its own shorter limit, fit into this."""
WORKER_MEMORY_BYTES = 8 << 30
"""Of a worker and its compilers together; each compiler's own bound is lower (bounded.py)."""
DISK_BYTES = 2 << 30
"""What may lie in a worker's folder."""
ATTEMPTS = 2
"""A candidate whose worker died is tried once more, since the worker may have died of something else."""
KILLED_ATTEMPTS = 6
"""The same where somebody outside killed the worker, which is no sign against the candidate."""
Outcome = Artifact | Failure
Job = tuple[Candidate, str]
"""What to build, and the checker to build into it (empty for none)."""


class BuildWorker(Worker):
    """A jailed build worker and the one folder that it can write."""

    def __init__(self) -> None:
        self._folder = contextlib.ExitStack()
        self.folder = self._folder.enter_context(cache.private_folder())
        try:
            home = {"KERNELWRIGHT_HOME": str(environment.home())}
            super().__init__(WORKER, jail=jail_of(self.folder), environment=home)
        except BaseException:
            self._folder.close()
            raise

    def build(self, problem: Problem, job: Job, target: Target, key: str, deadline_s: float) -> Outcome:
        """Builds one candidate in a new folder and puts what came out in the cache.

        Raises:
            DeadlineExceeded: the worker took longer; it is dead.
            WorkerDied: it ended on its own, or answered with something else.
        """
        candidate, checker = job
        made = Path(tempfile.mkdtemp(dir=self.folder))
        outcome = self.request(
            "build", deadline_s=deadline_s, problem=problem, candidate=candidate, target=target, folder=str(made),
            checker=checker,
        )  # fmt: skip
        if not isinstance(outcome, Artifact | Failure):
            self.kill()
            raise WorkerDied(f"a build worker answered with a {type(outcome).__name__}")
        if isinstance(outcome, Artifact):
            outcome = replace(cache.for_candidate(outcome, candidate), key=key, cached=False)
        kept = cache.keep(key, outcome, made)
        shutil.rmtree(made, ignore_errors=True)
        return kept

    def close(self) -> None:
        """Ends the worker and removes its folder."""
        super().close()
        self._folder.close()


def jail_of(folder: Path) -> Jail:
    """Returns the jail of a build worker that writes one folder."""
    tools = [shutil.which(name) for name in (environment.compiler() or "", "nvcc", "objdump")]
    homes = {os.path.dirname(os.path.dirname(os.path.realpath(tool))) for tool in tools if tool}
    cache.prepare(cache.toolchains())
    read = (*sorted(home for home in homes if home not in ("/", "/usr")), str(cache.toolchains()))
    return Jail(write=str(folder), read=read, memory_bytes=WORKER_MEMORY_BYTES, disk_bytes=DISK_BYTES)


class Builder:
    """Builds candidates for one target, with workers that stay alive between batches.

    **Covers**: order, duplicates (compiled once), the cache, dead workers (replaced), Ctrl-C.
    **Does not cover**: loading what was built.

    Args:
        target: where the artifacts will run; its threads say how many workers there are.
        workers: another number of workers.
        deadline_s: a worker that takes longer for one candidate is killed.

    Raises:
        MissingTool: when the target is a CPU and there is no C++ compiler.
        UserError: when the cache's folder cannot be made, or nothing here can hold a build worker.
    """

    def __init__(self, target: Target, *, workers: int | None = None, deadline_s: float = DEADLINE_S) -> None:
        if target.kind == "cpu":
            find_compiler()
        preferred_engine()
        cache.prepare(cache.folder())
        self.target = target
        self.count = max(1, workers if workers is not None else target.threads)
        self.deadline_s = deadline_s
        self._idle: list[BuildWorker] = []
        self._busy: set[BuildWorker] = set()
        self._prepared: set[str] = set()
        self._lock, self._preparing = threading.Lock(), threading.Lock()
        self._closed = False
        cache.tidy()

    def build(self, problem: Problem, candidates: Sequence[Candidate]) -> tuple[Outcome, ...]:
        """Returns one artifact or failure for each candidate, in their order.

        Raises:
            UserError: for a language that does not exist.
            KernelwrightError: when a worker failed for a reason that is ours.
            KeyboardInterrupt: at Ctrl-C, after the workers are gone; finished builds stay in the cache.
        """
        outcomes: dict[int, Outcome] = {}
        jobs: dict[str, list[int]] = {}
        for index, candidate in enumerate(candidates):
            known = self._known(problem, candidate)
            if isinstance(known, str):
                jobs.setdefault(known, []).append(index)
            else:
                outcomes[index] = known
        todo = {key: (candidates[found[0]], "") for key, found in jobs.items()}
        for key, outcome in self._run(problem, todo).items():
            for index in jobs[key]:
                outcomes[index] = _for_candidate(outcome, candidates[index])
        return tuple(outcomes[index] for index in range(len(candidates)))

    def begin(self, problem: Problem, candidates: Sequence[Candidate]) -> Iterator[Outcome]:
        """Yields what `build` returns, each as soon as it and those before it are there; the rest goes on meanwhile.

        Raises:
            Exception: as `build`, at the candidate that is concerned.
        """
        with ThreadPoolExecutor(self.count) as pool:
            asked = [pool.submit(self.build, problem, (candidate,)) for candidate in candidates]
            try:
                for future in asked:
                    yield future.result()[0]
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                if isinstance(error, KeyboardInterrupt):
                    self.close()  # nobody waits for the compilers
                raise

    def build_checked(self, problem: Problem, candidate: Candidate, checkers: Sequence[str]) -> tuple[Outcome, ...]:
        """Returns a build of one candidate with each checker in it, in their order.

        Such a build is not inspected: it is for the jailed programs of judge/checkers.py only.
        """
        outcomes: dict[str, Outcome] = {}
        todo: dict[str, tuple[Candidate, str]] = {}
        for checker in checkers:
            key = table.load(candidate.language).key(problem, candidate, self.target)
            if isinstance(key, Failure):
                outcomes[checker] = key
            elif known := cache.find(checked.key(key, checker), candidate):
                outcomes[checker] = known
            else:
                todo[checked.key(key, checker)] = (candidate, checker)
        done = self._run(problem, todo)
        outcomes |= {todo[key][1]: outcome for key, outcome in done.items()}
        return tuple(outcomes[checker] for checker in checkers)

    def _known(self, problem: Problem, candidate: Candidate) -> Outcome | str:
        """What can be said without a worker, or the key of the build."""
        if candidate.problem != digest(problem):
            message = "the candidate was made for another problem; make it again from this one"
            return Failure(stage="plan", kind="problem", message=message)
        key = table.load(candidate.language).key(problem, candidate, self.target)
        if isinstance(key, Failure):
            return key
        return cache.find(key, candidate) or key

    def _run(self, problem: Problem, jobs: dict[str, Job]) -> dict[str, Outcome]:
        with self._preparing:
            for language in {candidate.language for candidate, _ in jobs.values()} - self._prepared:
                if isinstance(table.load(language), table.Prepared):
                    with Worker(PREPARING) as trusted:
                        trusted.request("prepare", deadline_s=self.deadline_s, language=language)
                self._prepared.add(language)
        todo: queue.SimpleQueue[tuple[str, Job]] = queue.SimpleQueue()
        for job in jobs.items():
            todo.put(job)
        done: dict[str, Outcome] = {}
        faults: list[Exception] = []
        threads = [
            threading.Thread(target=self._work, args=(problem, todo, done, faults), daemon=True)
            for _ in range(min(self.count, len(jobs)))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self.close()
            raise
        if faults:
            raise faults[0]
        return done

    def _work(
        self,
        problem: Problem,
        todo: queue.SimpleQueue[tuple[str, Job]],
        done: dict[str, Outcome],
        faults: list[Exception],
    ) -> None:
        while not faults and not self._closed:
            try:
                key, job = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done[key] = self._build_one(problem, job, key)
            except Exception as error:  # noqa: BLE001  (raised again by the thread that asked)
                faults.append(error)

    def _build_one(self, problem: Problem, job: Job, key: str) -> Outcome:
        end, deaths, kills = "", 0, 0
        while deaths < ATTEMPTS and kills < KILLED_ATTEMPTS:
            worker = self._take()
            try:
                outcome = worker.build(problem, job, self.target, key, self.deadline_s)
            except DeadlineExceeded:
                message = f"the build took longer than {self.deadline_s:.0f} s and was killed"
                return Failure(stage="build", kind="timeout", message=message)
            except WorkerDied as death:
                end = death.message
                if isinstance(death, WorkerKilled):
                    kills += 1
                else:
                    deaths += 1
                continue
            finally:
                self._give_back(worker, spent=_runs_author_code(job[0]) and not bounded.has_inner_jail())
            return outcome
        message = f"building it ended {deaths + kills} build workers: {end}"
        return Failure(stage="build", kind=KILLED if kills >= KILLED_ATTEMPTS else "signal", message=message)

    def _take(self) -> BuildWorker:
        with self._lock:
            if self._closed:
                raise UserError("the builder was closed", "make a new one")
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    break
                worker.close()
            else:
                worker = BuildWorker()
            self._busy.add(worker)
            return worker

    def _give_back(self, worker: BuildWorker, *, spent: bool) -> None:
        with self._lock:
            self._busy.discard(worker)
            if worker.alive and not self._closed and not spent:
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """Kills all workers and whatever they are compiling."""
        with self._lock:
            self._closed = True
            for worker in self._busy:
                worker.kill()  # its thread closes it
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        cache.tidy()


def _runs_author_code(candidate: Candidate) -> bool:
    return bool(getattr(table.load(candidate.language), "runs_author_code", False))


def _for_candidate(outcome: Outcome, candidate: Candidate) -> Outcome:
    return cache.for_candidate(outcome, candidate) if isinstance(outcome, Artifact) else outcome
