//! The library as a program finds it: loaded by path, asked by name, without a cluster.

#![expect(unsafe_code, reason = "calls a C interface")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;

use libloading::{Library, Symbol};

fn path() -> PathBuf {
    let here = std::env::current_exe().expect("this test's path");
    here.with_file_name("libwarploom_cuda.so")
}

fn load() -> Library {
    // SAFETY: the library starts nothing when it is loaded.
    unsafe { Library::new(path()) }.expect("it is built with its tests")
}

#[test]
fn every_symbol_of_the_driver_api_is_exported_and_found() {
    let library = load();
    type Find =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;
    // SAFETY: the signature is the driver's.
    let find: Symbol<'_, Find> = unsafe { library.get(b"cuGetProcAddress_v2") }.expect("exported");
    let list = include_str!("../symbols.txt");
    let mut count = 0;
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let [symbol, base, version, stream, _] = words[..] else {
            panic!("{line}");
        };
        // SAFETY: only its address is looked at.
        let exported = unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) };
        let exported = *exported.unwrap_or_else(|error| panic!("{symbol}: {error}")) as *mut c_void;
        let base = std::ffi::CString::new(base).expect("a name");
        let version = version.parse().expect("a number");
        let flags = if stream == "thread" { 2 } else { 1 };
        let (mut found, mut answer) = (std::ptr::null_mut(), -1);
        // SAFETY: the pointers are to what they should be.
        let status = unsafe { find(base.as_ptr(), &mut found, version, flags, &mut answer) };
        assert_eq!((status, answer, found), (0, 0, exported), "{line}");
        count += 1;
    }
    assert_eq!(count, 724);
}

#[test]
fn nothing_but_the_driver_api_is_exported() {
    let bytes = std::fs::read(path()).expect("the library");
    // Rust's own symbols would be seen by name in the table of exported names.
    let names = String::from_utf8_lossy(&bytes);
    assert!(names.contains("libcuda.so.1"), "its SONAME");
    let library = load();
    for foreign in ["rust_eh_personality", "async_nats", "malloc"] {
        // SAFETY: only whether it is there is asked.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(foreign.as_bytes()) };
        // What the process itself has is found in it, not here.
        let own = found.is_ok_and(|symbol| {
            // SAFETY: as above.
            let process = unsafe {
                libloading::os::unix::Library::this()
                    .get::<unsafe extern "C" fn()>(foreign.as_bytes())
            };
            process.is_ok_and(|other| *other as usize != *symbol as usize)
        });
        assert!(!own, "{foreign}");
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
    // SAFETY: the signatures are the driver's.
    let (init, text, count) = unsafe {
        let init: Symbol<'_, unsafe extern "C" fn(u32) -> c_int> = library.get(b"cuInit").unwrap();
        let text: Symbol<'_, unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int> =
            library.get(b"cuGetErrorString").unwrap();
        let count: Symbol<'_, unsafe extern "C" fn(*mut c_int) -> c_int> =
            library.get(b"cuDeviceGetCount").unwrap();
        (init, text, count)
    };
    // SAFETY: the pointers are to what they should be.
    unsafe {
        let mut devices = 0;
        assert_eq!(count(&mut devices), 3, "not initialised");
        assert_eq!(init(1), 1, "flags must be 0");
        assert_eq!(init(0), 802, "system not ready");
        let mut meaning = std::ptr::null();
        assert_eq!(text(802, &mut meaning), 0);
        let meaning = CStr::from_ptr(meaning).to_string_lossy().into_owned();
        assert!(meaning.contains("warploom run"), "{meaning}");
        assert_eq!(count(&mut devices), 3, "still not");
    }
}
