//! The guard between a foreign caller and the functions behind the exports, and the macro that defines
//! exports.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::library::is_initialised;
use crate::status::{Result, Status};

/// Functions that may be called before `nvmlInit`.
const BEFORE_INIT: [&str; 7] = [
    "nvmlInit",
    "nvmlInit_v2",
    "nvmlInitWithFlags",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
];

/// Runs the body of an export if the library is initialised; a panic becomes an unknown error.
pub(crate) fn guard<T>(name: &'static str, body: impl FnOnce() -> Result<T>) -> i32 {
    if !is_initialised() && !BEFORE_INIT.contains(&name) {
        return Status::UNINITIALIZED.0;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(_)) => Status::SUCCESS.0,
        Ok(Err(status)) => status.0,
        Err(_) => Status::UNKNOWN.0,
    }
}

/// Defines exports of NVML: `fn nvmlName(arguments) also nvmlOther { body }`. The body returns
/// [`Result`], and `also` names older or newer forms with the same meaning. Arguments are of the
/// types of [`crate::abi`], which carry the program's promises about them.
macro_rules! api {
    () => {};
    (fn $name:ident ($($arg:ident: $ty:ty),* $(,)?) $(also $($also:ident),+)? $body:block $($rest:tt)*) => {
        $crate::guard::api!(@export $name, ($($arg: $ty),*), $body);
        $crate::guard::api!(@all $name, ($($arg: $ty),*), [$($($also)+)?]);
        $crate::guard::api! { $($rest)* }
    };
    (@export $name:ident, ($($arg:ident: $ty:ty),*), $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of NVML.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> i32 {
            $crate::guard::guard(stringify!($name), move || -> $crate::status::Result<_> { $body })
        }
    };
    (@all $name:ident, $args:tt, [$($also:ident)*]) => {
        $($crate::guard::api!(@same $also, $name, $args);)*
    };
    (@same $also:ident, $name:ident, ($($arg:ident: $ty:ty),*)) => {
        #[doc = concat!("`", stringify!($also), "` of NVML.")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $also($($arg: $ty),*) -> i32 {
            $name($($arg),*)
        }
    };
}
pub(crate) use api;
