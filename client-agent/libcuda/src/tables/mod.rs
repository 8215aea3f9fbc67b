//! Tables of functions that the CUDA runtime asks its driver for. No manual describes them; without
//! them a program that contains the runtime (nvcc's, CuPy, PyTorch, cuBLAS) fails with its first call.
//!
//! A person turns them on (`client.runtime_tables`), because whether NVIDIA's software may be used with
//! another driver is for them to decide: see docs/howto/cuda-runtime.md. All is answered here;
//! nothing of it goes to the cluster.
//!
//! | module | what |
//! | --- | --- |
//! | [`ids`] | the names of the tables that are described |
//! | [`asked`] | counts of what was asked for, for `--stats` |
//! | [`layout`] | the tables, and which of their functions do something |
//! | [`answer`] | the functions |
//! | [`digest`] | the number by which the runtime knows its driver |
//! | [`storage`] | values that libraries keep with a context |

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

/// Where a person says that the tables are answered: `on`.
const SETTING: &str = "WARPLOOM_CLIENT_RUNTIME_TABLES";

/// Whether a person turned the tables on.
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
/// `NOT_FOUND` for an id that nobody has described, and for all where the tables are off.
pub(crate) fn find(id: Id) -> Result<*const c_void> {
    let answered = if is_on() { table(&id) } else { None };
    let first = asked::count(id, answered.is_some());
    if let Some(table) = answered {
        return Ok(table);
    }
    if IDS.contains(&id) {
        note(Status::NOT_FOUND, refusal());
        if first {
            // Nobody may be listening.
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

/// At the end of a context; nothing is kept with it.
#[cfg(not(feature = "runtime-tables"))]
pub(crate) fn end_context(_: crate::abi::Handle<crate::context::Context>) {}

/// What is said once to a program whose runtime is refused.
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
