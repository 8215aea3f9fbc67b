//! The guard between a foreign caller and the functions behind the exports, and the macro that
//! defines exports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use driver_api::{DriverFunction, DuringCapture, State};

use crate::abi::Handle;
use crate::capture;
use crate::fork::is_forked;
use crate::mapped;
use crate::process::{is_leaving, process};
use crate::status::{Result, Status, note};
use crate::stream::Stream;

/// Calls that the child of a fork may make: they read constants only and take no lock.
const UNCHANGING: [&str; 5] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// Runs the body of an export if the table of the API admits the call and no capture forbids it.
/// Only an error of the body matters. A call during the exit of the process returns only that,
/// because its session is being closed.
#[inline]
pub(crate) fn guard<T>(
    function: &'static DriverFunction,
    words: &[u64],
    body: impl FnOnce() -> Result<T>,
) -> i32 {
    guarded(function, words, || {
        capture::permit(function.capture)?;
        body()
    })
}

/// Same as [`guard`], for a form that waits on the thread's default stream and leaves the legacy
/// one alone.
#[inline]
pub(crate) fn guard_of_thread<T>(
    function: &'static DriverFunction,
    words: &[u64],
    body: impl FnOnce() -> Result<T>,
) -> i32 {
    guarded(function, words, || {
        capture::refuse(Handle::<Stream>::PER_THREAD)?;
        capture::permit(DuringCapture::Unsafe)?;
        body()
    })
}

#[inline]
fn guarded<T>(
    function: &'static DriverFunction,
    words: &[u64],
    body: impl FnOnce() -> Result<T>,
) -> i32 {
    match admission(function, words) {
        0 => caught(function.symbol, || {
            mapped::settle(function.symbol);
            body()
        }),
        refused => refused,
    }
}

/// Runs the body of a function that is not in the table of the API, because NVIDIA's manual does
/// not describe it.
pub(crate) fn unlisted<T>(name: &'static str, body: impl FnOnce() -> Result<T>) -> i32 {
    if is_forked() {
        return Status::NOT_INITIALIZED.0;
    }
    match process() {
        Err(status) => status.0,
        Ok(_) => caught(name, body),
    }
}

/// The code by which the table of the API refuses a call, or 0. The program's state is checked
/// first, then arguments that are invalid in every state.
#[inline]
pub(crate) fn admission(function: &'static DriverFunction, words: &[u64]) -> i32 {
    if is_forked() && !UNCHANGING.contains(&function.symbol) {
        // The child lacks the parent's threads, which may have held any lock.
        return Status::NOT_INITIALIZED.0;
    }
    match (function.state, process()) {
        (State::Any, _) => {}
        (_, Err(status)) => return status.0,
        (State::Context, Ok(_)) if crate::stack::top().is_null() => {
            return Status::INVALID_CONTEXT.0;
        }
        _ => {}
    }
    function.refusal(words)
}

/// Runs a body; a panic becomes an unknown error, reported once.
fn caught<T>(name: &'static str, body: impl FnOnce() -> Result<T>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(_)) => 0,
        Ok(Err(_)) if is_leaving() => Status::DEINITIALIZED.0,
        Ok(Err(status)) => status.0,
        Err(_) => panicked(name),
    }
}

#[cold]
fn panicked(name: &'static str) -> i32 {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    // The panic hook belongs to the host program, and has printed its message.
    if !REPORTED.swap(true, Ordering::Relaxed) {
        note(
            Status::UNKNOWN,
            format!("warploom: {name} panicked; this is a defect of Warploom"),
        );
    }
    Status::UNKNOWN.0
}

/// True if the name of a form is of a kind: `ptsz` and `ptds` are suffixes, `same` is any other
/// name.
pub(crate) const fn is_of_kind(form: &str, kind: &str) -> bool {
    let (ptsz, ptds) = (ends_with(form, "_ptsz"), ends_with(form, "_ptds"));
    match kind.as_bytes() {
        b"ptsz" => ptsz,
        b"ptds" => ptds,
        _ => !ptsz && !ptds,
    }
}

const fn ends_with(text: &str, end: &str) -> bool {
    let (text, end) = (text.as_bytes(), end.as_bytes());
    let mut at = 0;
    while at < end.len() && at < text.len() && text[text.len() - 1 - at] == end[end.len() - 1 - at]
    {
        at += 1;
    }
    at == end.len()
}

/// Defines exports of the driver API, each in one of two forms:
///
/// - `fn cuName(arguments) also cuOther ptsz cuName_ptsz { body }`, for a body that returns
///   [`Result`];
/// - `fn cuName(arguments) also cuOther ptsz cuName_ptsz => call;` for an export that only passes
///   its arguments on.
///
/// `also` names further symbols with the same meaning. `ptsz` names forms that take the NULL stream
/// for the thread's default stream. `ptds` names forms that take no stream, and wait on the
/// thread's default stream instead of the legacy one. A list with a name of another kind is a
/// compile error.
///
/// Each export has a row in the table of the API ([`driver_api`]), which refuses calls before the
/// body runs. A function without a row is a compile error.
///
/// `symbols.txt` lists them as working. Arguments are of the types of [`crate::abi`], which carry
/// the program's promises about them; so an export is no `unsafe fn` to Rust. Arguments that begin
/// with an underscore are not used. Arguments that belong together, such as a list and its count,
/// have a lifetime of their own: `fn cuName<'c>(list: List<'c, T>, count: Count<'c>)`.
macro_rules! api {
    () => {};
    (fn $name:ident $(<$($life:lifetime),+>)? ($($args:tt)*) $(also $($also:ident),+)? $(ptsz $($ptsz:ident),+)?
        $(ptds $($ptds:ident),+)? => $call:expr; $($rest:tt)*) => {
        $crate::guard::api! {
            fn $name $(<$($life),+>)? ($($args)*) $(also $($also),+)? $(ptsz $($ptsz),+)? $(ptds $($ptds),+)?
            { $call }
            $($rest)*
        }
    };
    (fn $name:ident $(<$($life:lifetime),+>)? ($($args:tt)*) $(also $($also:ident),+)? $(ptsz $($ptsz:ident),+)?
        $(ptds $($ptds:ident),+)? $body:block $($rest:tt)*) => {
        $crate::guard::api!(@export guard, $name, $name, ($(<$($life),+>)?), ($($args)*), $body);
        $crate::guard::api!(@all same, $name, ($(<$($life),+>)?), ($($args)*), [$($($also)+)?]);
        $crate::guard::api!(@all ptsz, $name, ($(<$($life),+>)?), ($($args)*), [$($($ptsz)+)?]);
        $crate::guard::api!(@waits $name, ($(<$($life),+>)?), ($($args)*), $body, [$($($ptds)+)?]);
        $crate::guard::api! { $($rest)* }
    };
    (@export $guard:ident, $name:ident, $row:ident, ($(<$($life:lifetime),+>)?), ($($arg:ident: $ty:ty),* $(,)?),
        $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of the driver API.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name$(<$($life),+>)?($($arg: $ty),*) -> i32 {
            const ROW: &driver_api::DriverFunction = driver_api::function(stringify!($row));
            let words = [$($crate::abi::Word::word(&$arg)),*];
            $crate::guard::$guard(ROW, &words, move || -> $crate::status::Result<_> { $body })
        }
    };
    (@waits $name:ident, $lives:tt, $args:tt, $body:block, [$($form:ident)*]) => {$(
        $crate::guard::api!(@named ptds, $form);
        $crate::guard::api!(@export guard_of_thread, $form, $name, $lives, $args, $body);
    )*};
    (@named $kind:ident, $form:ident) => {
        const _: () = assert!(
            $crate::guard::is_of_kind(stringify!($form), stringify!($kind)),
            "the name of a form says of which kind it is",
        );
    };
    (@all $kind:ident, $name:ident, $lives:tt, $args:tt, [$($form:ident)*]) => {
        $($crate::guard::api!(@form $kind, $form, $name, $lives, $args);)*
    };
    (@form $kind:ident, $form:ident, $name:ident, ($(<$($life:lifetime),+>)?), ($($arg:ident: $ty:ty),* $(,)?)) => {
        $crate::guard::api!(@named $kind, $form);
        #[doc = concat!("`", stringify!($form), "` of the driver API.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $form$(<$($life),+>)?($($arg: $ty),*) -> i32 {
            $crate::guard::api!(@call $kind, $form, $name, ($($arg),*))
        }
    };
    // The table may allow this form other arguments.
    (@call same, $form:ident, $name:ident, ($($arg:ident),*)) => {{
        const ROW: &driver_api::DriverFunction = driver_api::function(stringify!($form));
        match $crate::guard::admission(ROW, &[$($crate::abi::Word::word(&$arg)),*]) {
            0 => $name($($arg),*),
            refused => refused,
        }
    }};
    (@call ptsz, $form:ident, $name:ident, ($($arg:ident),*)) => {
        $name($($crate::thread_form::Argument::of_thread($arg)),*)
    };
}
pub(crate) use api;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_unknown_error_and_the_next_call_is_well() {
        assert_eq!(
            caught::<()>("cuAnything", || panic!("as a test wants it")),
            999
        );
        let text = crate::status::explain(999).expect("it is explained");
        assert!(text.contains("cuAnything panicked"), "{text}");
        assert_eq!(caught("cuAnything", || Ok(())), 0);
    }
}
