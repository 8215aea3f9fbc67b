//! Messages in words, for the trace.

use bus_schemas::Status;

/// A message in words, for the trace.
#[must_use]
pub(crate) fn words(subject: &str, bytes: &[u8]) -> String {
    use bus_schemas::{
        Alive, Batch, ClientState, CloseRequest, DataChunk, DeviceResult, Done, Drain, GrantBatch,
        Intent, LeaderBeat, LeaderNotice, Leave, Lost, OpenAnswer, OpenRequest, Refusal, Rejected,
        Seal, SealReply, WorkerAck, WorkerBeat, decode,
    };
    macro_rules! shown {
        ($message:ty) => {
            decode::<$message>(bytes).map_or_else(|error| error.to_string(), |m| format!("{m:?}"))
        };
    }
    match subject.rsplit('.').next().unwrap_or_default() {
        "batch" => decode::<Batch<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |batch| {
                format!(
                    "batch {}+{} results {}",
                    batch.first, batch.count, batch.results
                )
            },
        ),
        "data" => decode::<DataChunk<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |part| {
                let (transfer, total, offset) = (part.transfer, part.total, part.offset);
                format!(
                    "transfer {transfer}: {offset}+{} of {total}",
                    part.bytes.len()
                )
            },
        ),
        "result" => decode::<DeviceResult<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |result| format!("result {} of op {}", result.number, result.op),
        ),
        "state" => shown!(ClientState),
        "order" => {
            decode::<GrantBatch<'_>>(bytes).map_or_else(|error| error.to_string(), |m| order(&m))
        }
        "error" => shown!(Rejected),
        "seal" => shown!(Seal),
        "lost" => shown!(Lost),
        "leave" => shown!(Leave),
        "drain" => shown!(Drain),
        "administrator" => {
            decode::<Status>(bytes).map_or_else(|error| error.to_string(), |it| status(&it))
        }
        "open" => shown!(OpenRequest),
        "close" => shown!(CloseRequest),
        "alive" => shown!(Alive),
        "leader" => shown!(LeaderNotice),
        "worker" => shown!(WorkerAck<'_>),
        "beat" | "reign" => shown!(LeaderBeat),
        _ if subject.contains(".intent.") => decode::<Intent<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |intent| format!("intent {}+{}", intent.first, intent.count),
        ),
        _ if subject.contains(".l.done.") => shown!(Done<'_>),
        _ if subject.contains(".l.worker.") => shown!(WorkerBeat),
        _ if subject.contains(".l.refusal.") => shown!(Refusal),
        _ if subject.contains(".s.inbox.") => shown!(SealReply),
        _ if subject.contains(".dn.inbox.") => shown!(OpenAnswer),
        _ => format!("{} bytes", bytes.len()),
    }
}

fn status(status: &Status) -> String {
    let drained = status.workers.iter().filter(|worker| worker.draining);
    let drained: Vec<_> = drained.map(|worker| worker.incarnation).collect();
    let (epoch, input, workers) = (status.epoch, status.input, status.workers.len());
    format!("status of epoch {epoch}, input {input}: {workers} workers, drained {drained:?}")
}

fn order(order: &bus_schemas::GrantBatch<'_>) -> String {
    use std::fmt::Write;
    let mut words = format!(
        "order of epoch {} from {} recorded {} reports {}:",
        order.epoch, order.first, order.recorded, order.reports
    );
    for grant in order.grants.iter() {
        let (kind, session) = (grant.kind, grant.session);
        // Writing to a string does not fail.
        let _ = write!(
            words,
            " {kind:?} {session} {}..{} cost {} priority {};",
            grant.first, grant.last, grant.cost, grant.priority
        );
    }
    words
}
