"""The conformance test of the CUDA device, on the GPU itself."""

import re

from .. import processes

CLUSTERS = False


def run(step):
    """Counts tests that passed and failed."""
    ran = processes.run([step.program("conformance"), "--test-threads=1", "--nocapture"], step.left() - 2)
    if "SKIPPED" in ran.err:
        return step.rest("no GPU: the test skipped itself")
    counted = re.search(r"test result: \w+\. (\d+) passed; (\d+) failed", ran.out)
    if not counted:
        return step.rest(f"the test told no result: {ran.failed}")
    failures = ", ".join(re.findall(r"test (\S+) \.\.\. FAILED", ran.out))
    step.tell("conformance_passed", "native", [float(counted[1])])
    step.tell("conformance_failed", "native", [float(counted[2])], config=failures)
