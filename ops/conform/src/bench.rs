//! Tools of the checks: the driver, and objects that they share.

use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, CString};

use crate::codes::SUCCESS;
use crate::driver::{self, Code, Driver, Word, words};
use crate::finding::{Finding, Outcome};
use crate::kernels;

/// Maximum number of attempts of a check that other programs can disturb.
const TRIES: usize = 50;

/// The driver under test and a check's tools.
pub(crate) struct Bench {
    driver: &'static Driver,
    module: OnceCell<u64>,
    // Memory that the check has allocated; it is freed after the check.
    allocated: RefCell<Vec<u64>>,
}

impl Bench {
    pub(crate) fn new(driver: &'static Driver) -> Self {
        Self {
            driver,
            module: OnceCell::new(),
            allocated: RefCell::default(),
        }
    }

    /// The driver, which other threads may also call.
    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Calls a function and returns its code; a missing function is a finding.
    pub(crate) fn code(&self, symbol: &str, words: &[Word]) -> Result<Code, Finding> {
        let answered = self.driver.call(symbol, words);
        answered.ok_or_else(|| Finding(format!("the driver has no {symbol}")))
    }

    /// Calls a function that must return this code.
    pub(crate) fn expect(&self, code: i32, symbol: &str, words: &[Word]) -> Outcome {
        self.expect_one_of(&[code], symbol, words)
    }

    /// Calls a function that must return one of these codes.
    pub(crate) fn expect_one_of(&self, codes: &[i32], symbol: &str, words: &[Word]) -> Outcome {
        let seen = self.code(symbol, words)?;
        if codes.contains(&seen.0) {
            return Ok(());
        }
        let wanted: Vec<String> = codes.iter().map(|it| Code(*it).to_string()).collect();
        let wanted = wanted.join(" or ");
        Err(Finding(format!("{symbol} gave {seen}, not {wanted}")))
    }

    /// Calls a function that must succeed.
    pub(crate) fn ok(&self, symbol: &str, words: &[Word]) -> Outcome {
        self.expect(SUCCESS, symbol, words)
    }

    /// Initialises the driver and makes the primary context of device 0 current in this thread.
    pub(crate) fn begin(&self) -> Outcome {
        self.ok("cuInit", words![0u32])?;
        let mut context = 0u64;
        self.ok("cuDevicePrimaryCtxRetain", words![&mut context, 0i32])?;
        self.ok("cuCtxSetCurrent", words![context])
    }

    /// Returns the handle that a function writes to its first argument.
    pub(crate) fn made(&self, symbol: &str, rest: &[Word]) -> Result<u64, Finding> {
        let mut handle = 0u64;
        let mut all = words![&mut handle].to_vec();
        all.extend_from_slice(rest);
        self.ok(symbol, &all)?;
        Ok(handle)
    }

    /// Allocates device memory that is freed after the check.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<u64, Finding> {
        let address = self.made("cuMemAlloc_v2", words![bytes])?;
        self.allocated.borrow_mut().push(address);
        Ok(address)
    }

    /// Frees the memory at this address after the check.
    pub(crate) fn freed_later(&self, address: u64) {
        self.allocated.borrow_mut().push(address);
    }

    /// Frees all memory that the check has allocated and not freed.
    pub(crate) fn clean(&self) {
        for address in self.allocated.take() {
            let _ = self.driver.call("cuMemFree_v2", words![address]);
        }
    }

    /// Copies items to device memory.
    pub(crate) fn write<T: Copy>(&self, to: u64, items: &[T]) -> Outcome {
        let bytes = std::mem::size_of_val(items);
        self.ok("cuMemcpyHtoD_v2", words![to, items, bytes])
    }

    /// Copies items from device memory.
    pub(crate) fn read<T: Copy + Default>(
        &self,
        from: u64,
        count: usize,
    ) -> Result<Vec<T>, Finding> {
        let mut items = vec![T::default(); count];
        let bytes = std::mem::size_of_val(items.as_slice());
        self.ok("cuMemcpyDtoH_v2", words![items.as_mut_slice(), from, bytes])?;
        Ok(items)
    }

    /// The module of [`kernels::PTX`], loaded once.
    pub(crate) fn module(&self) -> Result<u64, Finding> {
        if let Some(module) = self.module.get() {
            return Ok(*module);
        }
        let module = self.fresh_module()?;
        Ok(*self.module.get_or_init(|| module))
    }

    /// Loads the same module again; the check must unload it.
    pub(crate) fn fresh_module(&self) -> Result<u64, Finding> {
        let image = CString::new(kernels::PTX).map_err(|it| Finding(it.to_string()))?;
        self.made("cuModuleLoadData", words![image.as_c_str()])
    }

    /// A text that the driver returned.
    pub(crate) fn text(&self, at: *const std::ffi::c_char) -> String {
        driver::text(at)
    }

    /// Reads items from memory that the host may access.
    pub(crate) fn get_host<T: Copy>(&self, at: u64, count: usize) -> Vec<T> {
        driver::get(at, count)
    }

    /// Writes items to memory that the host may access.
    pub(crate) fn set_host<T: Copy>(&self, at: u64, items: &[T]) {
        driver::set(at, items);
    }

    /// A kernel of the shared module.
    pub(crate) fn kernel(&self, name: &CStr) -> Result<u64, Finding> {
        let module = self.module()?;
        self.made("cuModuleGetFunction", words![module, name])
    }

    /// Launches a kernel with parameters of eight bytes each on the legacy stream.
    pub(crate) fn launch(&self, kernel: u64, grid: u32, block: u32, parameters: &[u64]) -> Outcome {
        let places: Vec<u64> = parameters
            .iter()
            .map(|it| std::ptr::from_ref(it).expose_provenance() as u64)
            .collect();
        let null = Word::NULL;
        self.ok(
            "cuLaunchKernel",
            words![
                kernel,
                grid,
                1u32,
                1u32,
                block,
                1u32,
                1u32,
                0u32,
                null,
                places.as_slice(),
                null,
            ],
        )
    }

    /// Repeats a check that other programs on the device can disturb, such as other areas.
    pub(crate) fn undisturbed(&self, check: fn(&Self) -> Outcome) -> Outcome {
        let mut seen = check(self);
        for _ in 1..TRIES {
            if seen.is_ok() {
                break;
            }
            seen = check(self);
        }
        seen
    }

    /// Waits for all work of the current context.
    pub(crate) fn sync(&self) -> Outcome {
        self.ok("cuCtxSynchronize", words![])
    }

    /// An attribute of device 0.
    pub(crate) fn attribute(&self, number: i32) -> Result<i32, Finding> {
        let mut value = 0i32;
        self.ok("cuDeviceGetAttribute", words![&mut value, number, 0i32])?;
        Ok(value)
    }
}
