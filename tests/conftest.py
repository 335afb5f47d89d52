"""What all tests need: signals as a terminal's foreground job has them.

A shell starts background jobs with SIGINT ignored, and nohup with SIGHUP ignored; both would be inherited by every
process that a test starts, and tests of Ctrl-C would wait in vain.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
