//! The calling thread, as the traces name it: its number, and the program's span on it.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bus_schemas::{TraceContext, TraceContextError};
use client_agent_core::Caller;

/// Number of the next thread.
static NEXT: AtomicU32 = AtomicU32::new(1);
/// The span of the whole process, by its environment.
static INHERITED: OnceLock<Option<TraceContext>> = OnceLock::new();

thread_local! {
    // Plain values without destructors: they can be read while a thread ends.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static PARENT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// Sets the program's span of the calling thread, as a W3C `traceparent`: the parent of the requests that it
/// begins from now on. `None` or an empty text ends it.
///
/// # Errors
/// If the text is not a `traceparent`. The span stays as it was.
pub fn set_traceparent(text: Option<&str>) -> Result<(), TraceContextError> {
    let text = text.filter(|text| !text.is_empty());
    let parent = text.map(str::parse).transpose()?;
    PARENT.set(parent);
    Ok(())
}

/// Returns the span that the process was started under: the variable `TRACEPARENT`.
pub(crate) fn inherited() -> Option<TraceContext> {
    let read = || std::env::var("TRACEPARENT").ok()?.parse().ok();
    *INHERITED.get_or_init(read)
}

/// Returns the calling thread.
#[inline]
pub(crate) fn caller() -> Caller {
    let mut thread = NUMBER.get();
    if thread == 0 {
        thread = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(thread);
    }
    Caller {
        thread,
        parent: PARENT.get(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn each_thread_has_its_own_number_and_span() {
        set_traceparent(Some(SPAN)).expect("valid");
        let here = caller();
        assert_eq!(here.parent, SPAN.parse().ok());
        let there = std::thread::spawn(caller).join().expect("it ends");
        assert_ne!(there.thread, here.thread);
        assert_eq!(there.parent, None);
        assert!(set_traceparent(Some("00-none")).is_err());
        assert_eq!(caller(), here);
        set_traceparent(Some("")).expect("it ends the span");
        assert_eq!(caller().parent, None);
    }
}
