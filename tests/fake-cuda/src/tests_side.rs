//! The tests' side: finds the library, loads it by its path, and offers its functions for tests with types.

#![expect(
    unsafe_code,
    reason = "functions of a library that is loaded by its path"
)]

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libloading::Library;

use crate::{LoggedCall, Nanos};

/// The variable that names the folder with the library, in a process that finds it as the driver.
const FOLDER: &str = "FAKE_CUDA_FOLDER";
/// The variable by which the loader finds libraries.
const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// Names under which programs look for a driver.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];
/// Calls that are taken out of the log at a time.
const TAKEN: usize = 1_024;

/// A logged call, with its function's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: String,
    /// Its answer.
    pub code: u32,
    /// Virtual time of its begin.
    pub began: Nanos,
    /// Virtual time that it took.
    pub took: Nanos,
    /// Virtual time of that for which it waited for the device.
    pub waited: Nanos,
    /// Number of streams with work when it began, beside its own.
    pub others: u32,
    /// Bytes that it moves or allocates; 0 for other calls.
    pub bytes: u64,
}

/// A failure to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Number of calls until it comes; 1 is the next.
    pub nth: u64,
    /// The code with which the call fails.
    pub code: u32,
    /// True if every later call of the context fails as well.
    pub sticky: bool,
}

/// The library, loaded.
#[derive(Debug)]
pub struct FakeCuda {
    library: Library,
    functions: Vec<String>,
    now: extern "C" fn() -> Nanos,
    pass: extern "C" fn(Nanos),
}

/// Returns the path of the library that was built with the running test.
///
/// # Panics
/// If the program does not know its own path.
#[must_use]
pub fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program");
    let folder = program.parent().unwrap_or(Path::new("."));
    let beside = folder.join("libfake_cuda.so");
    match beside.exists() {
        true => beside,
        false => folder.join("deps/libfake_cuda.so"),
    }
}

/// Runs a test in a process of its own that finds the library as its CUDA driver. There it returns the
/// library. In the process that cargo has started it waits for the other one, and returns `None`; the test
/// then has nothing more to do. `test` is the full name of the test.
///
/// # Panics
/// If the test fails there.
#[must_use]
pub fn in_own_process(test: &str) -> Option<FakeCuda> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let loaded = FakeCuda::load(&Path::new(&folder).join(NAMES[0]));
        return Some(loaded.expect("the library"));
    }
    let unique = test.replace("::", "-");
    let name = format!("fake-cuda-{}-{unique}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in NAMES {
        let link = folder.join(name);
        std::os::unix::fs::symlink(library(), link).expect("a link");
    }
    let program = std::env::current_exe().expect("a program");
    let ran = Command::new(program)
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(FOLDER, &folder)
        .env(LIBRARIES, &folder)
        .output()
        .expect("it starts");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    print!("{out}");
    assert!(ran.status.success(), "{test}: {}\n{err}", ran.status);
    assert!(
        out.contains("1 passed"),
        "no test of the name {test}:\n{out}"
    );
    None
}

/// Returns one of the library's functions for tests.
fn symbol<F: Copy>(library: &Library, name: &str) -> F {
    // SAFETY: the callers name functions of `exports::testing` and give their types.
    let found = unsafe { library.get::<F>(name) };
    *found.unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl FakeCuda {
    /// Loads the library at a path.
    ///
    /// # Errors
    /// If there is none.
    pub fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the library is ours; loading it runs no code.
        let library = unsafe { Library::new(path) }?;
        Ok(Self {
            functions: Self::names(symbol(&library, "fake_cuda_function")),
            now: symbol(&library, "fake_cuda_now"),
            pass: symbol(&library, "fake_cuda_pass"),
            library,
        })
    }

    /// Returns one of the library's functions for tests.
    fn symbol<F: Copy>(&self, name: &str) -> F {
        symbol(&self.library, name)
    }

    fn names(name: extern "C" fn(u32, *mut u8, u64) -> u64) -> Vec<String> {
        let mut buffer = [0_u8; 64];
        let mut names = Vec::new();
        for function in 0.. {
            let bytes = name(function, buffer.as_mut_ptr(), buffer.len() as u64) as usize;
            match buffer.get(..bytes).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => names.push(String::from_utf8_lossy(bytes).into_owned()),
                None => break,
            }
        }
        names
    }

    /// Names of the driver's functions that the library exports.
    #[must_use]
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// Virtual time of this thread.
    #[must_use]
    pub fn now(&self) -> Nanos {
        (self.now)()
    }

    /// Moves the clock of this thread on.
    pub fn pass(&self, time: Duration) {
        let ns = Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        (self.pass)(ns);
    }

    /// Forgets everything but the time. The caller has dropped every object of the driver.
    pub fn reset(&self) {
        self.symbol::<extern "C" fn()>("fake_cuda_reset")();
    }

    /// Forgets counts, plans and delays, and this thread's log.
    pub fn clear(&self) {
        self.symbol::<extern "C" fn()>("fake_cuda_clear")();
    }

    fn name(function: &str) -> CString {
        CString::new(function).expect("a name")
    }

    fn number(&self, name: &str, function: &str) -> u64 {
        let asks: extern "C" fn(*const std::ffi::c_char) -> u64 = self.symbol(name);
        let number = asks(Self::name(function).as_ptr());
        assert_ne!(number, u64::MAX, "no function {function}");
        number
    }

    /// Number of calls of a function.
    ///
    /// # Panics
    /// If the library does not export it.
    #[must_use]
    pub fn count(&self, function: &str) -> u64 {
        self.number("fake_cuda_count", function)
    }

    /// Virtual time of all calls of a function.
    ///
    /// # Panics
    /// If the library does not export it.
    #[must_use]
    pub fn took(&self, function: &str) -> Nanos {
        self.number("fake_cuda_took", function)
    }

    /// Number of calls of all functions.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        let functions = self.functions.iter();
        functions.map(|function| self.count(function)).sum()
    }

    /// Lets a call of a function fail.
    ///
    /// # Panics
    /// If the library does not export it.
    pub fn fail(&self, function: &str, planned: Planned) {
        type Fail = extern "C" fn(*const std::ffi::c_char, u64, u32, u32) -> u32;
        let fail: Fail = self.symbol("fake_cuda_fail");
        let name = Self::name(function);
        let answer = fail(
            name.as_ptr(),
            planned.nth,
            planned.code,
            planned.sticky.into(),
        );
        assert_eq!(answer, 0, "no function {function}");
    }

    /// Lets each call of a function take so much longer.
    ///
    /// # Panics
    /// If the library does not export it.
    pub fn slow(&self, function: &str, time: Duration) {
        type Slow = extern "C" fn(*const std::ffi::c_char, Nanos) -> u32;
        let slow: Slow = self.symbol("fake_cuda_slow");
        let ns = Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        let answer = slow(Self::name(function).as_ptr(), ns);
        assert_eq!(answer, 0, "no function {function}");
    }

    /// Begins to log this thread's calls, from an empty log.
    pub fn log(&self) {
        self.symbol::<extern "C" fn()>("fake_cuda_log")();
    }

    /// Takes the calls out of this thread's log, which goes on.
    #[must_use]
    pub fn logged(&self) -> Vec<Call> {
        type Logged = extern "C" fn(*mut LoggedCall, u64) -> u64;
        let logged: Logged = self.symbol("fake_cuda_logged");
        let mut calls = Vec::new();
        loop {
            let mut taken = vec![LoggedCall::default(); TAKEN];
            let count = logged(taken.as_mut_ptr(), TAKEN as u64) as usize;
            taken.truncate(count);
            calls.extend(taken.into_iter().map(|it| self.named(it)));
            if count < TAKEN {
                return calls;
            }
        }
    }

    fn named(&self, it: LoggedCall) -> Call {
        let function = self.functions.get(it.function as usize);
        Call {
            function: function.cloned().unwrap_or_default(),
            code: it.code,
            began: it.began,
            took: it.took,
            waited: it.waited,
            others: it.others,
            bytes: u64::from(it.bytes),
        }
    }

    /// Number of streams with work at the time of this thread.
    #[must_use]
    pub fn busy(&self) -> u32 {
        self.symbol::<extern "C" fn() -> u32>("fake_cuda_busy")()
    }
}
