"""What was built, as the judge takes it: the bytes of an artifact, held against their digest.

Not here: building and the cache (languages), what a library may contain (languages/inspection.py).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.types import Artifact


def read_artifact(artifact: Artifact) -> bytes:
    """Returns an artifact's bytes; none where there is no binary.

    Raises:
        KernelwrightError: when the file is gone or is not what was built.
    """
    if not artifact.path:
        return b""
    try:
        data = Path(artifact.path).read_bytes()
    except OSError as error:
        raise KernelwrightError(f"the artifact {artifact.path} cannot be read: {error}", "build it again") from error
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != artifact.blob:
        raise KernelwrightError(f"the artifact {artifact.path} is not what was built", "empty the cache folder")
    return data
