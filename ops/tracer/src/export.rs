//! The export: batches of traces, one after the other, on a thread of its own. A batch that the collector does not take
//! is sent again.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use telemetry::{FinishedSpan, SendError, SpanExport, TelemetrySettings};
use tokio::sync::oneshot;

/// Pause before a batch is sent again, at first; it doubles with each failure.
const AGAIN: Duration = Duration::from_millis(250);
/// Maximum of that pause.
const PAUSE: Duration = Duration::from_secs(5);
/// Time for which a batch is sent again. One that the collector never takes must not hold up the others for good.
const TRIES: Duration = Duration::from_secs(600);
/// A batch, and the notice of its end: true if the collector took it.
struct Batch {
    spans: Vec<FinishedSpan>,
    done: oneshot::Sender<bool>,
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
                let took = send(&export, &spans);
                let _ = done.send(took);
            }
        };
        let thread = thread::Builder::new().name("export".into());
        thread
            .spawn(work)
            .map_err(|error| anyhow!("a thread for the export: {error}"))?;
        Ok(Some(Self(sender)))
    }

    /// Sends a batch. The answer comes when the collector has taken it, or after a long time of failures.
    pub(crate) fn send(&self, spans: Vec<FinishedSpan>) -> oneshot::Receiver<bool> {
        let (done, answer) = oneshot::channel();
        // The thread ends only with this sender.
        let _ = self.0.send(Batch { spans, done });
        answer
    }
}

fn send(export: &SpanExport, spans: &[FinishedSpan]) -> bool {
    let (begun, mut pause) = (Instant::now(), AGAIN);
    loop {
        let why = match export.send(spans) {
            Ok(()) => return true,
            Err(why) => why,
        };
        if matches!(why, SendError::Refused(_)) && spans.len() > 1 {
            // It may be too long, or one span of it may be at fault.
            let (one, other) = spans.split_at(spans.len() / 2);
            let took = [send(export, one), send(export, other)];
            return took.iter().all(|took| *took);
        }
        if begun.elapsed() > TRIES || matches!(why, SendError::Refused(_)) {
            tracing::warn!(%why, spans = spans.len(), "spans are dropped");
            return false;
        }
        tracing::debug!(%why, "spans are sent again");
        thread::sleep(pause);
        pause = (2 * pause).min(PAUSE);
    }
}
