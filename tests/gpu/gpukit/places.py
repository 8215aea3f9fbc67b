"""How a program is started in each mode."""

from dataclasses import dataclass, field

from . import processes


@dataclass
class Place:
    """A mode on this host: what stands before a program's command, and its environment.

    `state_dir` names the cluster of a mode whose programs are tenants.
    """

    mode: str
    how: str
    binary: str
    environment: dict
    tenants: bool = False
    state_dir: str | None = None
    variables: dict = field(default_factory=dict)

    def command(self, program, tenant="default", priority=None):
        """The command line of a program."""
        program = [str(it) for it in program]
        if not self.tenants:
            return program
        urgency = [] if priority is None else ["--priority", str(priority)]
        return [self.binary, "run", "--tenant", tenant, *urgency, "--cuda-runtime", "--", *program]

    def run(self, program, limit_s, tenant="default", priority=None, folder=None, stdin=None):
        """Runs a program to its end."""
        return processes.run(self.command(program, tenant, priority), limit_s, self._environment(priority),
                             folder, stdin)

    def start(self, program, tenant="default", priority=None, **streams):
        """Starts a program."""
        return processes.start(self.command(program, tenant, priority), self._environment(priority), **streams)

    def _environment(self, priority):
        more = dict(self.variables)
        if self.how == "mps" and priority is not None:
            # MPS knows two priorities of clients: 0 is normal, 1 is below normal.
            more["CUDA_MPS_CLIENT_PRIORITY"] = "0" if priority == 0 else "1"
        return {**self.environment, **more}
