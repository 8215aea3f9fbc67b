//! Tables of functions that the CUDA runtime requests from its driver. No manual describes them.
//! Without them, a program that contains the runtime (nvcc's, CuPy, PyTorch, cuBLAS) fails at its
//! first call.
//!
//! The user turns them on (`client.runtime_tables`), because the user must decide whether NVIDIA's
//! software may be used with another driver; see docs/howto/cuda-runtime.md. All requests are
//! answered here; none goes to the cluster.
//!
//! | module | what |
//! | --- | --- |
//! | [`ids`] | the ids of the tables that are described |
//! | [`asked`] | counts of requests, for `--stats` |
//! | [`layout`] | the tables, and their functions that are implemented |
//! | [`answer`] | the functions |
//! | [`digest`] | the number by which the runtime verifies its driver |
//! | [`storage`] | values that libraries store with a context |

#[cfg(feature = "runtime-tables")]
mod answer;
pub(crate) mod asked;
#[cfg(feature = "runtime-tables")]
mod digest;
mod ids;
#[cfg(feature = "runtime-tables")]
mod layout;
#[cfg(feature = "runtime-tables")]
mod storage;

use std::ffi::c_void;
use std::io::Write as _;
use std::sync::OnceLock;

use ids::{IDS, Id};
#[cfg(feature = "runtime-tables")]
pub(crate) use storage::end as end_context;

use crate::status::{Result, Status, note};

/// The variable by which the user turns the tables on: `on`.
const SETTING: &str = "WARPLOOM_CLIENT_RUNTIME_TABLES";

/// True if the user turned the tables on.
fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| cfg!(feature = "runtime-tables") && setting() == "on")
}

fn setting() -> String {
    let value = std::env::var_os(SETTING).unwrap_or_default();
    value.to_string_lossy().trim().to_lowercase()
}

/// The table of an id.
///
/// # Errors
/// `NOT_FOUND` for an id that is not described, and for all ids if the tables are off.
pub(crate) fn find(id: Id) -> Result<*const c_void> {
    let answered = if is_on() { table(&id) } else { None };
    let first = asked::count(id, answered.is_some());
    if let Some(table) = answered {
        return Ok(table);
    }
    if IDS.contains(&id) {
        note(Status::NOT_FOUND, refusal());
        if first {
            // stderr may be closed.
            let _ = writeln!(std::io::stderr(), "warploom: {}", refusal());
        }
    }
    Err(Status::NOT_FOUND)
}

#[cfg(feature = "runtime-tables")]
fn table(id: &Id) -> Option<*const c_void> {
    layout::find(id)
}

#[cfg(not(feature = "runtime-tables"))]
fn table(_: &Id) -> Option<*const c_void> {
    None
}

/// Does nothing: without the tables, a context has no stored values.
#[cfg(not(feature = "runtime-tables"))]
pub(crate) fn end_context(_: crate::abi::Handle<crate::context::Context>) {}

/// The message, shown once, to a program with a runtime that is refused.
fn refusal() -> String {
    let how = if cfg!(feature = "runtime-tables") {
        "start it with `warploom run --cuda-runtime`, or set client.runtime_tables = on \
         (WARPLOOM_CLIENT_RUNTIME_TABLES=on)"
    } else {
        "build libcuda with its feature `runtime-tables`"
    };
    format!(
        "this program contains NVIDIA's CUDA runtime, which does not start without tables that are \
         answered only where you say so: {how}; docs/howto/cuda-runtime.md has what they are and what the \
         runtime's licence says"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_refused_with_the_remedy_and_counted() {
        // No test sets the variable for its own process.
        let known = IDS[0];
        assert_eq!(find(known), Err(Status::NOT_FOUND));
        assert_eq!(find([7; 16]), Err(Status::NOT_FOUND));
        let text = asked::report();
        assert!(text.contains("0 answered"), "{text}");
        assert!(
            text.contains("07070707-0707-0707-0707-070707070707 1 times"),
            "{text}"
        );
        let why = crate::status::explain(Status::NOT_FOUND.0).expect("explained");
        assert!(why.contains("--cuda-runtime"), "{why}");
    }
}
