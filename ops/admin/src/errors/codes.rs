//! The codes of commands' errors. `docs/reference/errors.md` lists them; its section is made from
//! this table.

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// The stable code of a command's error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $name,)*
        }

        impl ErrorCode {
            /// All codes, in the order of the page.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code as users see it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// Meaning and remedy.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }
        }
    };
}

codes! {
    Usage = "E-USAGE",
        "the command was called wrongly. See `--help`.";
    ClusterUnreachable = "E-CLUSTER-UNREACHABLE",
        "no broker, leader or worker answers. `warploom up`, or name the broker in \
         `broker.url`.";
    ClusterUnhealthy = "E-CLUSTER-UNHEALTHY",
        "`status --check`: the cluster is degraded or down. The message has the reasons.";
    WorkerDrain = "E-WORKER-DRAIN",
        "`worker drain --wait` ended without a result: another command has undone the drain. \
         Drain it again.";
    WorkerNumber = "E-WORKER-NUMBER",
        "`warploom worker --gpu N`, or with `worker.gpu` set, while a live worker has that \
         number. Name another, or none: then it gets the next free one.";
    WorkerLeaves = "E-WORKER-LEAVES",
        "`worker drain --undo` came too late: the worker had no sessions and leaves, or has \
         left. The message names the command that starts another.";
    SessionUnknown = "E-SESSION-UNKNOWN",
        "`session show` or `end` named a session that does not exist, or no longer exists. \
         `warploom session list` names the present sessions.";
    SessionBusy = "E-SESSION-BUSY",
        "a session that an administrator ended is still there after `command.deadline`. \
         Either its running work goes on to its end on the worker, or all grants are held. \
         Wait, or `warploom order release`.";
    TenantBusy = "E-TENANT-BUSY",
        "`tenant remove` of a tenant that has sessions. Have its programs end, or `--force`.";
    TenantLogin = "E-TENANT-LOGIN",
        "`tenant renew` where the broker was not started by `warploom up` on this host, or \
         the tenant has no login there. Change its login where the broker is configured: \
         docs/howto/broker.md.";
    TenantTarget = "E-TENANT-TARGET",
        "a tenant's target cannot be met, by the profile; a warning, and with `--strict` a \
         refusal. Raise the target or the priority, or add a worker: docs/howto/slo.md, \
         \"Admission\".";
    ConfigFile = "E-CONFIG-FILE",
        "the configuration file cannot be read. Check its path and syntax.";
    ConfigKey = "E-CONFIG-KEY",
        "there is no such setting. `warploom config` lists all.";
    ConfigValue = "E-CONFIG-VALUE",
        "a setting has an invalid value. The message names its source.";
    ClusterSettings = "E-CLUSTER-SETTINGS",
        "the settings' entry of the state bucket cannot be read, or other writers keep \
         changing it. Try again, or repair the entry `settings`.";
    ClusterReplicas = "E-CLUSTER-REPLICAS",
        "the broker cannot keep as many copies as `broker.replicas` demands. It has too few \
         servers, or some are down. `warploom status` shows the servers; set fewer, or \
         `auto`.";
    Why = "E-WHY",
        "the requested position, session, tenant or device is not in the record, has not \
         ended, or has no times there. It has none if it ran nothing, or if its record is \
         older than the times. `warploom order show` lists the recorded positions.";
    WeightsFile = "E-WEIGHTS-FILE",
        "a file is not a safetensors or GGUF file, is damaged, or has nothing worth keeping. \
         The message says which.";
    WeightsFull = "E-WEIGHTS-FULL",
        "the store of weights has no room for more. Remove some (`warploom weights remove`), \
         or set `weights.max_bytes` higher.";
    WeightsStore = "E-WEIGHTS-STORE",
        "an entry of the store of weights cannot be read: a later build wrote it, or it is \
         damaged. `warploom weights remove NAME`, then `add` it again.";
    Accounts = "E-ACCOUNTS",
        "the usage blocks cannot be read, or do not add up. The message names the worker and \
         the block.";
    Profile = "E-PROFILE",
        "an entry of the state bucket is not a profile, or the broker refuses to return \
         profiles or kernel measurements; the message has its reason. If the entry is not a \
         profile, remove `profile` or `pin`: leaders learn anew.";
    ChaosFailed = "E-CHAOS-FAILED",
        "a promise was broken in a chaos run. The message names it; docs/evidence/chaos.md \
         explains it.";
    EvidenceFile = "E-EVIDENCE-FILE",
        "an evidence file cannot be read or written. Check the directory.";
    EvidenceKey = "E-EVIDENCE-KEY",
        "the key that signs evidence cannot be read or made. Check `evidence.key` in the \
         state folder.";
    EvidenceManifest = "E-EVIDENCE-MANIFEST",
        "a file of evidence differs from the signed manifest, or another key signed it. The \
         files were changed; `warploom status` shows the cluster's key.";
    EvidenceLine = "E-EVIDENCE-LINE",
        "a line of evidence is malformed. Its form is in docs/reference/evidence.md.";
    EvidenceDisagrees = "E-EVIDENCE-DISAGREES",
        "the evidence files contradict one another. The output names the place.";
    RecordFile = "E-RECORD-FILE",
        "a file of an order cannot be read or written, is not a file of an order, or was \
         changed. Check the path; export it again.";
    ArchiveGap = "E-ARCHIVE-GAP",
        "inputs between the archive's end and the record's beginning were cut off before they \
         were exported. Begin another archive in an empty folder; export more often.";
    ArchiveOther = "E-ARCHIVE-OTHER",
        "the folder is an archive of another cluster. Give each cluster a folder of its own.";
    ArchiveBusy = "E-ARCHIVE-BUSY",
        "another export to the same archive is under way. Wait for it.";
    OrderDisagrees = "E-ORDER-DISAGREES",
        "an order differs from what its workers accepted, its chains do not follow from its \
         rows, or its digest is wrong. The message names the first position.";
    OrderDiffers = "E-ORDER-DIFFERS",
        "two orders differ. The message names the first position.";
    WorkloadFile = "E-WORKLOAD-FILE",
        "a file of `sim compare --workloads` is not a model. The message names file and line; \
         the form of a model is in docs/internals/simulation.md, \"Models\".";
    Simulation = "E-SIMULATION",
        "a simulation ended without results to compare. The message names the pair; give it \
         other models.";
    Faults = "E-FAULTS",
        "a run of `sim faults` broke an invariant. The message names the seed; `--script` \
         plays the written script.";
    FaultsScript = "E-FAULTS-SCRIPT",
        "a script of `sim faults` cannot be read. Its form is in docs/evidence/faults.md.";
    OutputFile = "E-OUTPUT-FILE",
        "a picture, script or timeline cannot be written. Check the path.";
    ReplayHole = "E-REPLAY-HOLE",
        "workers accepted positions that are in neither the record nor a tail. The message \
         names the first; docs/internals/record.md, \"What is adopted\".";
    Replay = "E-REPLAY",
        "the record cannot be read, does not replay, or arrives at another digest. The \
         message names the place.";
    SubmitFile = "E-SUBMIT-FILE",
        "a result cannot be written to its file. Check the path.";
    RunLibrary = "E-RUN-LIBRARY",
        "the drop-in library is not beside this program. Build it: `cargo build --release`, \
         or set `run.library`.";
    RunProgram = "E-RUN-PROGRAM",
        "the program of `run` cannot be started. Check its path.";
    LocalRunning = "E-LOCAL-RUNNING",
        "a cluster runs on this state folder already. Use that one, or another \
         `cluster.state_dir`.";
    LocalStart = "E-LOCAL-START",
        "a process of the local cluster died again and again while the cluster started. The \
         message has its last output.";
    LocalStop = "E-LOCAL-STOP",
        "a process of the local cluster did not end in time, and was killed. See its log in \
         the state folder.";
    MetricsListen = "E-METRICS-LISTEN",
        "the process cannot listen at the address of `leader.metrics` or `worker.metrics`: \
         another process listens there, or the address is not this host's. Name another port; \
         `up.metrics` gives each process its own.";
    ApiListen = "E-API-LISTEN",
        "the controller cannot listen there: the port is taken, or not allowed.";
    ApiTls = "E-API-TLS",
        "the certificate or its key cannot be read, or do not belong together.";
    Stopped = "E-STOPPED",
        "the command was stopped (Ctrl-C, SIGTERM) before its end. No action is needed: its \
         processes have ended too.";
    DemoTenants = "E-DEMO-TENANTS",
        "the tenants file cannot be read. Its form is in docs/howto/demo.md.";
    DemoFailed = "E-DEMO-FAILED",
        "the demo's checks failed. The table names them.";
}

#[cfg(test)]
mod tests {
    use bus_schemas::Code;

    use super::*;

    /// Columns of the page.
    const COLUMNS: usize = 110;

    /// An entry of the page, its lines at most [`COLUMNS`] wide.
    fn entry((name, place, meaning): (&str, &str, &str)) -> String {
        let text = format!("- **{name}**{place}: {meaning}");
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.last_mut().expect("the first one");
            match line.len() + 1 + word.len() > COLUMNS {
                _ if line.is_empty() => line.push_str(word),
                false => *line += &format!(" {word}"),
                true => lines.push(format!("  {word}")),
            }
        }
        lines.join("\n") + "\n"
    }

    fn of_bus(code: Code) -> String {
        let retry = if code.retryable() { "yes" } else { "no" };
        let place = format!(" ({}, CUDA {}, retry {retry})", code.number(), code.cuda());
        entry((code.name(), &place, code.meaning()))
    }

    /// The page with the entries of one section replaced.
    fn with(page: &str, heading: &str, entries: &str) -> String {
        let section = page.find(heading).expect("the section");
        let from = section + page[section..].find("\n- **").expect("its entries") + 1;
        let until = from + page[from..].find("\n## ").expect("the next section");
        [&page[..from], entries, &page[until..]].concat()
    }

    /// `WARPLOOM_BLESS=1` writes the sections.
    #[test]
    fn the_page_lists_every_code_with_its_meaning() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/errors.md"
        );
        let page = std::fs::read_to_string(path).expect("the page");
        let bus: String = Code::ALL.iter().map(|code| of_bus(*code)).collect();
        let commands = ErrorCode::ALL.iter();
        let commands: String = commands
            .map(|code| entry((code.name(), "", code.meaning())))
            .collect();
        let blessed = with(&page, "## On the bus", &bus);
        let blessed = with(&blessed, "## Of commands", &commands);
        if std::env::var_os("WARPLOOM_BLESS").is_some() {
            std::fs::write(path, blessed).expect("written");
            return;
        }
        let renew = "differs: WARPLOOM_BLESS=1 cargo test -p admin --lib codes";
        assert_eq!(page, blessed, "docs/reference/errors.md {renew}");
    }

    #[test]
    fn no_two_codes_are_equal() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
    }
}
