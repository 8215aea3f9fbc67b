//! The library from the view of a program: loaded by path, looked up by name, without a cluster.

#![expect(unsafe_code, reason = "calls a C interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::PathBuf;

use libloading::os::unix::{Library, RTLD_NOW};

fn path() -> PathBuf {
    let here = std::env::current_exe().expect("this test's path");
    here.with_file_name("libwarploom_cuda.so")
}

fn load() -> Library {
    // SAFETY: the library starts nothing when it is loaded.
    unsafe { Library::open(Some(path()), RTLD_NOW) }.expect("it is built with its tests")
}

/// A text that is passed to a function.
#[repr(transparent)]
struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Self(text.as_ptr(), PhantomData)
    }
}

/// Functions of a loaded library, with the driver's signatures.
struct Driver<'a> {
    init: extern "C" fn(u32) -> c_int,
    device_count: extern "C" fn(&mut c_int) -> c_int,
    error_string: extern "C" fn(c_int, &mut *const c_char) -> c_int,
    find: extern "C" fn(Text<'_>, &mut *mut c_void, c_int, u64, &mut c_int) -> c_int,
    loaded: PhantomData<&'a Library>,
}

impl<'a> Driver<'a> {
    fn of(library: &'a Library) -> Self {
        // SAFETY: the types are the driver's signatures, and the functions stay while the library is loaded.
        unsafe {
            Self {
                init: *library.get(b"cuInit").expect("exported"),
                device_count: *library.get(b"cuDeviceGetCount").expect("exported"),
                error_string: *library.get(b"cuGetErrorString").expect("exported"),
                find: *library.get(b"cuGetProcAddress_v2").expect("exported"),
                loaded: PhantomData,
            }
        }
    }

    /// The text of an error.
    fn explain(&self, error: c_int) -> String {
        let mut text = std::ptr::null();
        assert_eq!((self.error_string)(error, &mut text), 0);
        // SAFETY: the call went well, and its texts end with a zero byte and stay.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
    }
}

/// The address of a symbol in a library or its dependencies.
fn address(library: &Library, name: &str) -> Option<*mut c_void> {
    // SAFETY: every symbol has an address, which is never followed here.
    let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
    found.ok().map(|symbol| *symbol)
}

#[test]
fn every_symbol_of_the_driver_api_is_exported_and_found() {
    let library = load();
    let driver = Driver::of(&library);
    let list = include_str!("../symbols.txt");
    let mut count = 0;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let [symbol, base, version, stream, _] = words[..] else {
            panic!("{line}");
        };
        let exported = address(&library, symbol).unwrap_or_else(|| panic!("{symbol}"));
        let base = CString::new(base).expect("a name");
        let version = version.parse().expect("a number");
        let flags = if stream == "thread" { 2 } else { 1 };
        let (mut found, mut answer) = (std::ptr::null_mut(), -1);
        let name = Text::from(&*base);
        let status = (driver.find)(name, &mut found, version, flags, &mut answer);
        assert_eq!((status, answer, found), (0, 0, exported), "{line}");
        count += 1;
    }
    assert_eq!(count, 724);
}

#[test]
fn a_traceparent_is_taken_at_any_time_and_other_text_is_refused() {
    let library = load();
    // SAFETY: the type is the function's signature.
    let set = unsafe {
        let found =
            library.get::<extern "C" fn(*const c_char) -> c_int>(b"warploom_set_traceparent");
        found.expect("exported")
    };
    let span = c"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (text, answer) in [(span, 0), (c"", 0), (c"00-none", 1), (c"\xff", 1)] {
        assert_eq!(set(text.as_ptr()), answer, "{text:?}");
    }
    assert_eq!(set(std::ptr::null()), 0);
}

#[test]
fn a_process_without_a_lost_device_tells_no_failure() {
    let library = load();
    // SAFETY: the type is the function's signature.
    let last = unsafe {
        let found = library.get::<extern "C" fn(*mut u8, usize) -> u64>(b"warploom_last_failure");
        found.expect("exported")
    };
    let mut text = [7; 4];
    assert_eq!(last(text.as_mut_ptr(), text.len()), 0);
    assert_eq!(text, [0, 7, 7, 7]);
    assert_eq!(last(std::ptr::null_mut(), 0), 0);
}

/// Names that are not functions of NVML: programs look them up to see that they are missing.
const NO_NVML: [&str; 2] = ["nvmlDeviceGetColour", "nvmlInit_v9"];

#[test]
fn every_symbol_of_nvml_is_exported_by_the_same_file() {
    let library = load();
    let names: Vec<_> = nvml::symbols().iter().map(|symbol| symbol.name).collect();
    for name in &names {
        assert!(address(&library, name).is_some(), "{name}");
    }
    for name in NO_NVML {
        assert!(address(&library, name).is_none(), "{name}");
    }
    let list = include_str!("../../nvml/symbols.txt");
    let listed = list.lines().filter(|line| !line.starts_with('#'));
    let listed = listed.map(|line| line.split(' ').next().expect("a name"));
    assert!(listed.eq(names.iter().copied()), "the table is the list");
    assert_eq!(names.len(), 425);
}

#[test]
fn nvml_without_a_cluster_answers_that_there_is_no_driver() {
    let library = load();
    // SAFETY: the types are NVML's signatures.
    let (init, count, explain) = unsafe {
        (
            library
                .get::<extern "C" fn() -> c_int>(b"nvmlInit_v2")
                .expect("exported"),
            library
                .get::<extern "C" fn(&mut u32) -> c_int>(b"nvmlDeviceGetCount_v2")
                .expect("exported"),
            library
                .get::<extern "C" fn(c_int) -> *const c_char>(b"nvmlErrorString")
                .expect("exported"),
        )
    };
    let mut devices = 7;
    assert_eq!(count(&mut devices), 1, "not initialised");
    assert_eq!(init(), 9, "no driver");
    // SAFETY: its texts end with a zero byte and stay.
    let text = |code| unsafe { CStr::from_ptr(explain(code)) }.to_string_lossy();
    assert!(text(9).contains("warploom run"), "{}", text(9));
    assert_eq!(
        (text(3), text(-1)),
        ("Not Supported".into(), "Unknown Error".into())
    );
    assert_eq!((count(&mut devices), devices), (1, 7), "still not");
}

#[test]
fn nothing_but_the_driver_api_is_exported() {
    let bytes = std::fs::read(path()).expect("the library");
    // Rust's own symbols would appear by name in the table of exported names.
    let names = String::from_utf8_lossy(&bytes);
    assert!(names.contains("libcuda.so.1"), "its SONAME");
    let library = load();
    for foreign in ["rust_eh_personality", "async_nats", "malloc"] {
        // Symbols of the process itself are found in it, not here.
        let (found, process) = (
            address(&library, foreign),
            address(&Library::this(), foreign),
        );
        assert!(found.is_none() || found == process, "{foreign}");
    }
}

#[test]
fn loading_and_unloading_a_hundred_times_is_nothing() {
    for _ in 0..100 {
        load().close().expect("it closes");
    }
}

#[test]
fn without_a_cluster_the_error_says_what_to_do() {
    let library = load();
    let driver = Driver::of(&library);
    let mut devices = 0;
    assert_eq!((driver.device_count)(&mut devices), 3, "not initialised");
    assert_eq!((driver.init)(1), 1, "flags must be 0");
    assert_eq!((driver.init)(0), 802, "system not ready");
    let meaning = driver.explain(802);
    assert!(meaning.contains("warploom run"), "{meaning}");
    assert_eq!((driver.device_count)(&mut devices), 3, "still not");
}
