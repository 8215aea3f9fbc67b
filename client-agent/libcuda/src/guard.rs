//! What stands between a foreign caller and the functions behind the exports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fork::is_forked;
use crate::process;
use crate::status::{Result, Status, note};

/// What the child of a fork may call: they answer from what never changes and take no lock.
const UNCHANGING: [&str; 5] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// Runs what an export does; a panic is an unknown error, told once. A call that fails while the
/// process exits says only that: its session is closed beneath it.
pub(crate) fn guard(name: &'static str, body: impl FnOnce() -> Result) -> i32 {
    if is_forked() && !UNCHANGING.contains(&name) {
        // Threads that the child has not may hold any lock.
        return Status::NOT_INITIALIZED.0;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(_)) if process::is_leaving() => Status::DEINITIALIZED.0,
        Ok(Err(status)) => status.0,
        Err(_) => panicked(name),
    }
}

#[cold]
fn panicked(name: &'static str) -> i32 {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // The panic hook is the host's, and has printed what it prints.
    if !TOLD.swap(true, Ordering::Relaxed) {
        note(
            Status::UNKNOWN,
            format!("warploom: {name} panicked; this is a defect of Warploom"),
        );
    }
    Status::UNKNOWN.0
}

/// Defines exports of the driver API: `fn cuName(arguments) also cuOther { body }`, where the body
/// is that of a function which returns [`Result`], and `also` names further symbols that mean the
/// same. `symbols.txt` names them as working. Arguments are of the types of [`crate::abi`],
/// which carry what the program promises of them: therefore an export is no `unsafe fn` to Rust.
macro_rules! api {
    ($(fn $name:ident $args:tt $(also $($also:ident),+)? $body:block)*) => {
        $(
            $crate::guard::api!(@export $name, $args, $body);
            $($($crate::guard::api!(@same $also, $name, $args);)+)?
        )*
    };
    (@export $name:ident, ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of the driver API.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> i32 {
            $crate::guard::guard(stringify!($name), move || -> $crate::status::Result { $body })
        }
    };
    (@same $also:ident, $name:ident, ($($arg:ident: $ty:ty),* $(,)?)) => {
        #[doc = concat!("`", stringify!($also), "` of the driver API.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $also($($arg: $ty),*) -> i32 {
            $name($($arg),*)
        }
    };
}
pub(crate) use api;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_unknown_error_and_the_next_call_is_well() {
        assert_eq!(guard("cuAnything", || panic!("as a test wants it")), 999);
        let text = crate::status::explain(999).expect("it is explained");
        assert!(text.contains("cuAnything panicked"), "{text}");
        assert_eq!(guard("cuAnything", || Ok(())), 0);
    }
}
