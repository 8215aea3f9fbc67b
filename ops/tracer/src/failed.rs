//! The errors of a request, as its span tells them: those that it met, and the one that ended it.

use bus_schemas::{Code, KernelFault};
use telemetry::catalogue::traces as names;
use telemetry::{Attributes, SpanEvent};

use crate::attribute::{number, text};
use crate::join::Request;
use crate::parts::Met;

/// The error that ended a request.
#[derive(Debug)]
pub(crate) struct Failed {
    code: Code,
    /// The error in words.
    words: String,
    /// The kernel's fault, if it was one.
    fault: Option<KernelFault>,
}

impl Failed {
    /// The error of a request, by its code and the detail that its program told.
    pub(crate) fn new(code: Code, request: &Request) -> Self {
        let told = request.failure.as_deref().unwrap_or_default();
        let words = match told.is_empty() {
            true => code.meaning(),
            false => told,
        };
        Self {
            code,
            words: words.to_owned(),
            fault: told.parse().ok(),
        }
    }

    /// The kernel's fault in words; empty if it was none.
    pub(crate) fn fault(&self) -> String {
        self.fault
            .as_ref()
            .map(KernelFault::to_string)
            .unwrap_or_default()
    }

    /// The attributes of the request.
    pub(crate) fn attributes(&self) -> Attributes {
        let mut attributes = vec![text(names::ERROR_TYPE, self.code.name())];
        let Some(fault) = &self.fault else {
            return attributes;
        };
        attributes.extend([
            text(names::CODE_FUNCTION, fault.kernel()),
            number(names::FAULT_PTX_LINE, fault.ptx_line().into()),
            text(names::FAULT_BLOCK, &place(fault.block())),
            text(names::FAULT_THREAD, &place(fault.thread())),
        ]);
        if let Some(source) = fault.source() {
            attributes.push(text(names::CODE_FILE, source.file()));
            attributes.push(number(names::CODE_LINE, source.line().into()));
        }
        if let Some(address) = fault.address() {
            attributes.push(text(names::FAULT_ADDRESS, &format!("{address:#x}")));
        }
        attributes
    }

    /// The event of the request.
    pub(crate) fn event(&self, at: u64) -> SpanEvent {
        exception(self.code, &self.words, at)
    }

    /// The status of the span: the code and the error in words.
    pub(crate) fn status(self) -> (&'static str, String) {
        (self.code.name(), self.words)
    }
}

/// The number of calls that failed while the request went on, if some did.
pub(crate) fn failed_calls(request: &Request) -> Option<u64> {
    let counts = request.errors.iter().map(|met| u64::from(met.count));
    let calls: u64 = counts.sum();
    (calls > 0).then_some(calls)
}

/// The events of the errors that a request met, within its bounds.
pub(crate) fn met(request: &Request, (began, ended): (u64, u64)) -> Vec<SpanEvent> {
    let event = |met: &Met| {
        let at = met.at.max(began).min(ended);
        let words = match met.words.is_empty() {
            true => met.code.meaning(),
            false => &*met.words,
        };
        exception(met.code, words, at)
    };
    request.errors.iter().map(event).collect()
}

fn exception(code: Code, words: &str, at: u64) -> SpanEvent {
    SpanEvent {
        name: "exception",
        at,
        attributes: vec![
            text(names::EXCEPTION_TYPE, code.name()),
            text(names::EXCEPTION_MESSAGE, words),
        ],
    }
}

fn place(at: [u32; 3]) -> String {
    at.map(|it| it.to_string()).join(",")
}
