"""Runs two compilers in turn and prints what each run took.

Standard input: one line a step, `SIDE <tab> ARGUMENT <tab> ARGUMENT …`; the steps of a side run one after another and count as one run.
Argument of the program: how often each side runs, after one run of each that does not count. Standard output: a line
`SIDE <tab> wall seconds <tab> CPU seconds <tab> peak bytes` for each run. The peak is the resident memory of the largest process of any
step, as the kernel accounts it when the process has ended. A step that fails ends the program with the step's last words.
"""

import os
import subprocess
import sys
import tempfile
import time


def run(steps):
    wall, cpu, peak = 0.0, 0.0, 0
    for step in steps:
        with tempfile.TemporaryFile() as words:
            start = time.monotonic()
            process = subprocess.Popen(step, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
            # Usage of the process and of all that it has waited for.
            _, status, usage = os.wait4(process.pid, 0)
            wall += time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                words.seek(max(0, words.seek(0, os.SEEK_END) - 2000))
                last = words.read().decode(errors="replace")
                sys.exit(f"{' '.join(step)}: exit status {process.returncode}\n{last}")
        cpu += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss * 1024)
    return wall, cpu, peak


def main():
    sides = {}
    for line in sys.stdin.read().splitlines():
        side, *step = line.split("\t")
        sides.setdefault(side, []).append(step)
    for repetition in range(1 + int(sys.argv[1])):
        for side, steps in sides.items():
            wall, cpu, peak = run(steps)
            if repetition > 0:
                print(f"{side}\t{wall:.4f}\t{cpu:.4f}\t{peak}", flush=True)


main()
