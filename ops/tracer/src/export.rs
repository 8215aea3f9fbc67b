//! The export: batches of traces, one after the other, on a thread of its own. A batch that the collector does not take
//! is sent again.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bus_schemas::SpanId;
use telemetry::{FinishedSpan, SendError, SpanExport, TelemetrySettings};
use tokio::sync::oneshot;

use crate::trace::REQUEST;

/// Pause before a batch is sent again, at first; it doubles with each failure.
const AGAIN: Duration = Duration::from_millis(250);
/// Maximum of that pause.
const PAUSE: Duration = Duration::from_secs(5);
/// Time for which a batch is sent again. One that the collector never takes must not hold up the others for good.
const TRIES: Duration = Duration::from_secs(600);

/// The requests of a batch that the collector did not take as a whole.
pub(crate) type Refused = BTreeSet<SpanId>;

/// A batch, and the notice of its end.
struct Batch {
    spans: Vec<FinishedSpan>,
    done: oneshot::Sender<Refused>,
}

/// The thread that exports.
pub(crate) struct Exporter(mpsc::Sender<Batch>);

impl Exporter {
    /// Starts the thread; `None` if no endpoint for spans is set.
    pub(crate) fn start(settings: &TelemetrySettings) -> Result<Option<Self>> {
        let Some(export) = SpanExport::start(settings)? else {
            return Ok(None);
        };
        let (sender, batches) = mpsc::channel::<Batch>();
        let work = move || {
            for Batch { spans, done } in batches {
                let mut refused = Refused::new();
                let post = |spans: &[FinishedSpan]| export.send(spans);
                send(&post, &spans, &mut refused);
                let _ = done.send(refused);
            }
        };
        let thread = thread::Builder::new().name("export".into());
        thread
            .spawn(work)
            .map_err(|error| anyhow!("a thread for the export: {error}"))?;
        Ok(Some(Self(sender)))
    }

    /// Sends a batch. The answer comes when the collector has taken it, or after a long time of failures.
    pub(crate) fn send(&self, spans: Vec<FinishedSpan>) -> oneshot::Receiver<Refused> {
        let (done, answer) = oneshot::channel();
        // The thread ends only with this sender.
        let _ = self.0.send(Batch { spans, done });
        answer
    }
}

/// Posts spans until the collector has taken them or never will.
fn send(
    post: &dyn Fn(&[FinishedSpan]) -> Result<(), SendError>,
    spans: &[FinishedSpan],
    refused: &mut Refused,
) {
    let (begun, mut pause) = (Instant::now(), AGAIN);
    loop {
        let Err(why) = post(spans) else {
            return;
        };
        if matches!(why, SendError::Refused(_)) && spans.len() > 1 {
            // It may be too long, or one span of it may be at fault.
            let (one, other) = spans.split_at(spans.len() / 2);
            send(post, one, refused);
            send(post, other, refused);
            return;
        }
        if begun.elapsed() > TRIES || matches!(why, SendError::Refused(_)) {
            tracing::warn!(%why, spans = spans.len(), "spans are dropped");
            refused.extend(spans.iter().map(request_of));
            return;
        }
        tracing::debug!(%why, "spans are sent again");
        thread::sleep(pause);
        pause = (2 * pause).min(PAUSE);
    }
}

/// The request that a span belongs to: itself or its parent.
fn request_of(span: &FinishedSpan) -> SpanId {
    match span.name == REQUEST {
        true => span.span,
        false => span.parent.unwrap_or(span.span),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use bus_schemas::TraceId;
    use telemetry::Role;
    use telemetry::catalogue::traces::SpanKind;

    use super::*;

    fn span(name: &str, id: u8, parent: Option<u8>) -> FinishedSpan {
        FinishedSpan {
            role: Role::Client,
            kind: SpanKind::Client,
            name: name.to_owned(),
            trace: TraceId([1; 16]),
            span: SpanId([id; 8]),
            parent: parent.map(|id| SpanId([id; 8])),
            is_remote: false,
            start: 1,
            end: 2,
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            error: None,
        }
    }

    #[test]
    fn a_request_with_a_span_that_the_collector_refuses_is_told_once() {
        let spans = [
            span(REQUEST, 1, Some(99)),
            span("queue", 11, Some(1)),
            span(REQUEST, 2, None),
            span("queue", 21, Some(2)),
            span("gpu copy", 22, Some(2)),
            span(REQUEST, 3, None),
        ];
        let (taken, mut refused) = (RefCell::new(0), Refused::new());
        let post = |spans: &[FinishedSpan]| {
            let bad = [SpanId([21; 8]), SpanId([22; 8]), SpanId([3; 8])];
            if spans.iter().any(|it| bad.contains(&it.span)) {
                return Err(SendError::Refused(400));
            }
            *taken.borrow_mut() += spans.len();
            Ok(())
        };
        send(&post, &spans, &mut refused);
        assert_eq!(refused, Refused::from([SpanId([2; 8]), SpanId([3; 8])]));
        assert_eq!(taken.into_inner(), 3);
    }
}
