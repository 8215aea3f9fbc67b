//! The spans of a request with their events and attributes: the only table of them. The tracer takes the names from
//! here, and `docs/reference/signals.md` is made from it.

use crate::settings::Role;

/// The kind of a span, as OpenTelemetry defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A role asks, and waits for the answer.
    Client,
    /// A role does what another one asks.
    Server,
    /// A role sends a message.
    Producer,
    /// A role receives a message.
    Consumer,
}

impl SpanKind {
    /// Returns the kind of a role's spans that are not of a message.
    #[must_use]
    pub const fn of(role: Role) -> Self {
        match role {
            Role::Client => Self::Client,
            _ => Self::Server,
        }
    }

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }
}

/// A span.
#[derive(Debug, PartialEq, Eq)]
pub struct SpanEntry {
    /// Its name; capitals stand for parts that differ.
    pub name: &'static str,
    /// Role that does the work: the service of the span.
    pub role: Role,
    /// Its kind.
    pub kind: SpanKind,
    /// Its beginning.
    pub from: &'static str,
    /// Its end.
    pub to: &'static str,
}

/// An attribute of spans or events.
#[derive(Debug, PartialEq, Eq)]
pub struct AttributeEntry {
    /// Its name; capitals stand for a part that differs.
    pub name: &'static str,
    /// Spans and events that have it: the first word of their names.
    pub on: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

/// The spans of a request, and the request itself.
pub static SPANS: &[SpanEntry] = &[
    span(
        "request",
        Role::Client,
        "the first op after a wait",
        "the answer of the next",
    ),
    message(
        "submit",
        SpanKind::Producer,
        "the request begins",
        "the leader hears of it",
    ),
    span(
        "queue",
        Role::Leader,
        "the leader hears of a slice's first op",
        "it starts on the device",
    ),
    span(
        "gpu launch NAME +N",
        Role::Worker,
        "a slice's first op starts",
        "its last op has ended",
    ),
    span(
        "gpu load",
        Role::Worker,
        "the same, of a slice that loads modules",
        "its last op has ended",
    ),
    span(
        "gpu copy",
        Role::Worker,
        "the same, of a slice with copies and no launch",
        "its last op has ended",
    ),
    span(
        "gpu copy out",
        Role::Worker,
        "the same, with copies to the host",
        "its last op has ended",
    ),
    span(
        "gpu sync",
        Role::Worker,
        "the same, with waits only",
        "its last op has ended",
    ),
    span(
        "gpu memory",
        Role::Worker,
        "the same, with other ops",
        "its last op has ended",
    ),
    span(
        "gpu execute",
        Role::Worker,
        "the same, of ops that no record announced",
        "its last op has ended",
    ),
    span(
        "compile",
        Role::Worker,
        "the compilation of a module that a slice loads begins",
        "the module is compiled",
    ),
    span(
        "transfer",
        Role::Worker,
        "copies to the device or on it begin, in a slice of launches",
        "the last of them has ended",
    ),
    span(
        "transfer out",
        Role::Worker,
        "copies to the host begin, in a slice of other work",
        "the last of them has ended",
    ),
    span(
        "load",
        Role::Worker,
        "loads of modules begin, in a slice of other work",
        "the last of them has ended",
    ),
    span(
        "swap",
        Role::Worker,
        "the grant of a return of the session's memory is there",
        "the memory is on the device",
    ),
    span(
        "program",
        Role::Client,
        "the last op of a slice has ended",
        "the leader hears of more",
    ),
    message(
        "answer",
        SpanKind::Consumer,
        "the last op has ended",
        "the program has the answer",
    ),
];

const fn span(name: &'static str, role: Role, from: &'static str, to: &'static str) -> SpanEntry {
    SpanEntry {
        name,
        role,
        kind: SpanKind::of(role),
        from,
        to,
    }
}

const fn message(
    name: &'static str,
    kind: SpanKind,
    from: &'static str,
    to: &'static str,
) -> SpanEntry {
    SpanEntry {
        name,
        role: Role::Client,
        kind,
        from,
        to,
    }
}

/// The events of spans: the name, the span, the meaning.
pub static EVENTS: &[(&str, &str, &str)] = &[
    ("kernel", "gpu", "launches of one kernel in the slice"),
    ("copy", "gpu", "copies in the slice"),
    ("load", "gpu", "loads of modules in the slice"),
    (
        "exception",
        "request",
        "an error that a call met, four at most, and the one that ended the request",
    ),
];

macro_rules! attributes {
    ($($constant:ident: $name:literal on [$($on:literal)*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: &str = $name;
        )*

        /// All attributes.
        pub static ATTRIBUTES: &[AttributeEntry] =
            &[$(AttributeEntry { name: $name, on: &[$($on),*], help: $help }),*];
    };
}

attributes! {
    TENANT: "warploom.tenant" on [
        "request" "submit" "queue" "gpu" "compile" "transfer" "load" "swap" "program" "answer"
    ],
        "the request's tenant";
    SESSION: "warploom.session" on [
        "request" "submit" "queue" "gpu" "compile" "transfer" "load" "swap" "program" "answer"
    ],
        "its session";
    OPS: "warploom.ops" on ["request" "queue" "gpu" "transfer" "load" "copy"], "ops";
    LAUNCHES: "warploom.launches" on ["request" "gpu" "kernel"], "launches among them";
    GPU: "warploom.gpu" on ["request" "queue" "gpu" "compile" "transfer" "load" "swap"],
        "the device's number in the cluster";
    HW_ID: "hw.id" on ["gpu" "compile" "transfer" "load" "swap"], "the same number, as text";
    HW_TYPE: "hw.type" on ["gpu" "compile" "transfer" "load" "swap"], "`gpu`";
    EPOCH: "warploom.epoch" on ["queue" "gpu" "compile" "transfer" "load" "swap"], "the leader's epoch";
    POSITION: "warploom.position" on ["queue" "gpu" "compile" "transfer" "load" "swap"],
        "the grant: its position on the device in that epoch";
    OP: "warploom.op" on ["queue" "gpu" "compile" "transfer" "load" "swap"], "the slice's first op";
    PRIORITY: "warploom.priority" on ["request" "queue"], "the priority at which it runs";
    DEVICE_NS: "warploom.device_ns" on ["gpu" "kernel"],
        "device nanoseconds: measured for a slice, a share of them for a kernel";
    ESTIMATED: "warploom.estimated" on ["transfer" "load" "kernel"],
        "true if the time is an estimate, and only that of the slice is measured";
    KERNEL: "warploom.kernel" on ["kernel"],
        "the kernel's name in its module, or its key where no worker has measured it";
    BYTES: "warploom.bytes" on ["transfer" "copy"], "bytes of the copies";
    SLICES: "warploom.slices" on ["gpu"], "slices that share the span, if there are several";
    WAIT_NS: "warploom.wait_ns" on ["request" "queue" "gpu"],
        "nanoseconds of the wait: that of the slice, or the sum of all slices";
    WAIT_CAUSE_NS: "warploom.wait.CAUSE_ns" on ["request" "queue" "gpu"],
        "the part of it with this [cause](../howto/why.md); they add up to the wait";
    KEPT: "warploom.kept" on ["request"], "why it is kept: `parent`, `error`, `slow` or `share`";
    TARGET_NS: "warploom.target_ns" on ["request"], "the tenant's target, if it has one";
    INCOMPLETE: "warploom.incomplete" on ["request"],
        "true if the record lacks some ops: their worker was lost, or the leader that heard of their end";
    THREAD_ID: "thread.id" on ["request"], "the program's thread, numbered from 1 in the order of their first ops";
    PROCESS_PID: "process.pid" on ["request"], "the program's process";
    PROCESS_NAME: "process.executable.name" on ["request"], "the program";
    HOST_NAME: "host.name" on ["request"], "the program's host";
    ERROR_TYPE: "error.type" on ["request"], "the [code](errors.md) of the error that ended it";
    ERRORS: "warploom.errors" on ["request"],
        "calls that failed while the request went on: allocations and modules that were refused";
    EXCEPTION_TYPE: "exception.type" on ["exception"], "the [code](errors.md) of the error";
    EXCEPTION_MESSAGE: "exception.message" on ["exception"], "the error in words";
    CODE_FUNCTION: "code.function.name" on ["request"], "the kernel that failed";
    CODE_FILE: "code.file.path" on ["request"],
        "the source file of the instruction that failed, if its program tells it";
    CODE_LINE: "code.line.number" on ["request"], "the line there";
    FAULT_PTX_LINE: "warploom.fault.ptx_line" on ["request"], "the line of the module's PTX";
    FAULT_BLOCK: "warploom.fault.block" on ["request"], "the block, as `x,y,z`";
    FAULT_THREAD: "warploom.fault.thread" on ["request"], "the thread in it, as `x,y,z`";
    FAULT_ADDRESS: "warploom.fault.address" on ["request"], "the address that it accessed, hexadecimal";
    MESSAGING_SYSTEM: "messaging.system" on ["submit" "answer"], "`nats`";
    MESSAGING_OPERATION: "messaging.operation.name" on ["submit" "answer"], "`publish` or `receive`";
    MESSAGING_TYPE: "messaging.operation.type" on ["submit" "answer"], "`send` or `receive`";
    MESSAGING_DESTINATION: "messaging.destination.name" on ["submit" "answer"],
        "the pattern of the message's subject, with `*` for tenant and session";
}

/// The attribute with the nanoseconds of a cause.
#[must_use]
pub fn wait_cause_ns(cause: &str) -> String {
    format!("warploom.wait.{cause}_ns")
}

/// The attributes of every process that exports: the name, where it comes from, the meaning.
pub static RESOURCE: &[(&str, &str, &str)] = &[
    (
        "service.name",
        "all",
        "`warploom-client`, `-leader`, `-worker`, `-controller` or `-tracer`, unless `OTEL_SERVICE_NAME` names the \
         process that does the work",
    ),
    ("service.namespace", "all", "`warploom`"),
    ("service.version", "all", "the version of Warploom"),
    ("warploom.cluster", "all", "the cluster's name"),
    (
        "service.instance.id",
        "metrics, logs",
        "a number of the process",
    ),
    ("process.pid", "metrics, logs", "its process"),
    ("host.name", "metrics, logs", "its host"),
    (
        "k8s.*",
        "metrics, logs",
        "namespace, node and pod, by `OTEL_RESOURCE_ATTRIBUTES`; the chart sets them. Spans of leaders and workers \
         have the namespace",
    ),
    (
        "telemetry.sdk.*",
        "all",
        "name, language and version of the exporter",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attribute_has_one_entry_and_belongs_to_a_span_or_an_event() {
        let names: BTreeSet<_> = ATTRIBUTES.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), ATTRIBUTES.len());
        let spans = SPANS.iter().map(|span| span.name.split(' ').next());
        let spans: BTreeSet<_> = spans.flatten().collect();
        let events: BTreeSet<_> = EVENTS.iter().map(|(name, ..)| *name).collect();
        let on = ATTRIBUTES.iter().flat_map(|it| it.on);
        assert!(
            on.clone()
                .all(|it| spans.contains(it) || events.contains(it))
        );
        assert!(EVENTS.iter().all(|(_, span, _)| spans.contains(span)));
        let used: BTreeSet<_> = on.copied().collect();
        assert!(spans.union(&events).all(|it| used.contains(it)));
    }
}
