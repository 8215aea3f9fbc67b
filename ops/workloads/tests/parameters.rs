//! Every launch passes exactly the parameters that its kernel declares.

use std::collections::BTreeSet;

use workloads::{FunctionId, Gpu, ModuleId, NAMES, by_name, checks, kernels};

/// A device that runs nothing and reads as zeros, but checks every launch.
#[derive(Default)]
struct ParameterChecker {
    modules: Vec<ptx::ModuleInfo>,
    functions: Vec<(String, u32)>,
    allocated: u64,
    launched: BTreeSet<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Mistake(String);

impl Gpu for ParameterChecker {
    type Error = Mistake;

    fn load(&mut self, image: &[u8]) -> Result<ModuleId, Mistake> {
        let module = ptx::ModuleInfo::parse(image).map_err(|error| Mistake(error.to_string()))?;
        self.modules.push(module);
        Ok(ModuleId(self.modules.len() as u64 - 1))
    }

    fn function(&mut self, module: ModuleId, entry: &str) -> Result<FunctionId, Mistake> {
        let found = self.modules[module.0 as usize].entry(entry);
        let found = found.ok_or_else(|| Mistake(format!("no entry {entry}")))?;
        self.functions.push((entry.to_owned(), found.param_bytes));
        Ok(FunctionId(self.functions.len() as u64 - 1))
    }

    fn alloc(&mut self, bytes: u64) -> Result<u64, Mistake> {
        let address = 0x1000_0000_0000 + self.allocated;
        self.allocated += bytes.next_multiple_of(256);
        Ok(address)
    }

    fn free(&mut self, _: u64) -> Result<(), Mistake> {
        Ok(())
    }

    fn copy_in(&mut self, _: u64, _: &[u8]) -> Result<(), Mistake> {
        Ok(())
    }

    fn copy_out(&mut self, _: u64, bytes: &mut [u8]) -> Result<(), Mistake> {
        bytes.fill(0);
        Ok(())
    }

    fn launch(
        &mut self,
        function: FunctionId,
        grid: [u32; 3],
        block: [u32; 3],
        _: u32,
        params: &[u8],
    ) -> Result<(), Mistake> {
        let (entry, declared) = &self.functions[function.0 as usize];
        if params.len() != *declared as usize {
            let given = params.len();
            return Err(Mistake(format!(
                "{entry} takes {declared} bytes, not {given}"
            )));
        }
        let threads: u32 = block.iter().product();
        if grid.contains(&0) || threads == 0 || threads > 1024 {
            return Err(Mistake(format!("{entry} in {grid:?} x {block:?}")));
        }
        self.launched.insert(entry.clone());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Mistake> {
        Ok(())
    }
}

#[test]
fn every_image_is_read_by_our_own_parser() {
    for image in kernels::ALL {
        let module = ptx::ModuleInfo::parse(image.bytes()).expect(image.name);
        for entry in image.entries {
            assert!(module.entry(entry).is_some(), "{entry}");
        }
    }
}

#[test]
fn workloads_pass_what_their_kernels_take_and_see_that_nothing_ran() {
    for name in NAMES {
        let (mut checker, mut workload) = (
            ParameterChecker::default(),
            by_name(name, 3).expect("known"),
        );
        workload.prepare(&mut checker).expect("prepared");
        for _ in 0..3 {
            let outcome = workload.request(&mut checker).expect("every launch fits");
            assert!(!outcome.verified, "{name}: zeros are not its result");
            assert!(outcome.launches > 0 && outcome.launches < 60);
        }
        let image = kernels::ALL
            .iter()
            .find(|image| image.name == name)
            .expect("an image");
        let own: BTreeSet<String> = image.entries.iter().map(|e| (*e).to_owned()).collect();
        assert_eq!(checker.launched, own, "{name}");
    }
}

#[test]
fn checks_pass_what_their_kernels_take_and_see_that_nothing_ran() {
    for check in checks::all::<ParameterChecker>() {
        let mut checker = ParameterChecker::default();
        match (check.run)(&mut checker) {
            Err(checks::CheckFailure::Wrong(_)) => {}
            Err(checks::CheckFailure::Device(mistake)) => panic!("{:?}: {mistake}", check.entries),
            // It has no result that could be wrong.
            Ok(()) if check.entries == ["empty"] => {}
            Ok(()) => panic!("{:?}: zeros passed", check.entries),
        }
        assert!(!checker.launched.is_empty(), "{:?}", check.entries);
    }
}
