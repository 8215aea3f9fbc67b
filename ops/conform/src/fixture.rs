//! An object of each kind, and a valid argument for each parameter. A call is then correct except
//! for the argument that a check changes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;

use driver_api::{DriverFunction, Object, Parameter, ParameterRole};

use crate::bench::Bench;
use crate::driver::{Argument as _, Word, words};
use crate::finding::Finding;
use crate::kernels;

/// Size of each buffer to which an argument points, in bytes: larger than any structure of the
/// driver API.
const PLACE: usize = 4096;
/// Size of the device memory and host memory that arguments name, in bytes.
const MEMORY: usize = 1 << 20;

/// The objects, created on demand and kept.
#[derive(Default)]
pub(crate) struct Fixture {
    objects: RefCell<HashMap<&'static str, u64>>,
    places: RefCell<Vec<Box<[u64]>>>,
    image: Cell<Option<&'static CStr>>,
    file: RefCell<Option<(File, CString)>>,
}

extern "C" fn callback(_data: *mut c_void) {}

impl Fixture {
    /// Arguments for a successful call of the function, as far as the table can tell.
    pub(crate) fn arguments(
        &self,
        bench: &Bench,
        function: &DriverFunction,
    ) -> Result<Vec<Word>, Finding> {
        let parameters = function.parameters.iter();
        parameters
            .map(|it| self.argument(bench, function, it))
            .collect()
    }

    fn argument(
        &self,
        bench: &Bench,
        function: &DriverFunction,
        parameter: &Parameter,
    ) -> Result<Word, Finding> {
        Ok(match parameter.role {
            ParameterRole::In if matches!(parameter.name, "image" | "code" | "data") => {
                self.image().word()
            }
            ParameterRole::In if parameter.name == "symbol" => c"cuInit".word(),
            ParameterRole::Out | ParameterRole::OutIf | ParameterRole::In | ParameterRole::List => {
                self.place()
            }
            ParameterRole::InIf | ParameterRole::HandleIf(_) => Word::NULL,
            ParameterRole::KernelName => c"fill".word(),
            ParameterRole::VariableName if function.symbol == "cuLibraryGetManaged" => {
                c"both".word()
            }
            ParameterRole::VariableName => c"counter".word(),
            ParameterRole::Path => self.path()?,
            ParameterRole::Count
            | ParameterRole::Flags(_)
            | ParameterRole::ContextFlags(_)
            | ParameterRole::Device
            | ParameterRole::Any => 0u64.word(),
            ParameterRole::Size if function.base().starts_with("cuLaunch") => 1u64.word(),
            ParameterRole::Size => 64u64.word(),
            ParameterRole::OneOf(numbers) => numbers[0].word(),
            ParameterRole::Handle(object) => self.object(bench, object)?.word(),
            ParameterRole::Address => Word(self.object_memory(bench)?),
            ParameterRole::Host => self.kept(bench, "host", |bench| {
                bench.made("cuMemHostAlloc", words![MEMORY, 0u32])
            })?,
            ParameterRole::Callback => Word((callback as *const ()).expose_provenance() as u64),
        })
    }

    /// A zeroed buffer that lives as long as the fixture.
    fn place(&self) -> Word {
        let mut place = vec![0u64; PLACE / 8].into_boxed_slice();
        let word = place.as_mut().word();
        self.places.borrow_mut().push(place);
        word
    }

    fn image(&self) -> &'static CStr {
        self.image.get().unwrap_or_else(|| {
            let image = CString::new(kernels::PTX).expect("PTX has no zero byte");
            let image: &'static CStr = Box::leak(image.into_boxed_c_str());
            self.image.set(Some(image));
            image
        })
    }

    /// The path of a file with the kernels, which lives as long as the fixture.
    fn path(&self) -> Result<Word, Finding> {
        if self.file.borrow().is_none() {
            *self.file.borrow_mut() = Some(kernels::file()?);
        }
        let file = self.file.borrow();
        let path = file.as_ref().map(|(_, path)| path.as_c_str().word());
        Ok(path.unwrap_or(Word::NULL))
    }

    fn kept(
        &self,
        bench: &Bench,
        name: &'static str,
        make: impl FnOnce(&Bench) -> Result<u64, Finding>,
    ) -> Result<Word, Finding> {
        if let Some(made) = self.objects.borrow().get(name) {
            return Ok(Word(*made));
        }
        let made = make(bench)?;
        self.objects.borrow_mut().insert(name, made);
        Ok(Word(made))
    }

    /// The address of the fixture's device memory.
    fn object_memory(&self, bench: &Bench) -> Result<u64, Finding> {
        let made = self.kept(bench, "memory", |it| {
            it.made("cuMemAlloc_v2", words![MEMORY])
        });
        made.map(|it| it.0)
    }

    /// The fixture's object of a kind.
    #[expect(clippy::too_many_lines, reason = "makes one object after another")]
    pub(crate) fn object(&self, bench: &Bench, object: Object) -> Result<Word, Finding> {
        let made = |bench: &Bench, symbol: &str, rest: &[Word]| bench.made(symbol, rest);
        match object {
            Object::Context => {
                self.kept(bench, "context", |it| it.made("cuCtxGetCurrent", words![]))
            }
            Object::Stream => self.kept(bench, "stream", |it| {
                made(it, "cuStreamCreate", words![0u32])
            }),
            Object::Event => {
                self.kept(bench, "event", |it| made(it, "cuEventCreate", words![0u32]))
            }
            Object::Module => self.kept(bench, "module", Bench::module),
            Object::Function => self.kept(bench, "function", |it| it.kernel(c"fill")),
            Object::Library => {
                let image = self.image();
                let null = Word::NULL;
                self.kept(bench, "library", |it| {
                    let rest = words![image, null, null, 0u32, null, null, 0u32];
                    made(it, "cuLibraryLoadData", rest)
                })
            }
            Object::Kernel => {
                let library = self.object(bench, Object::Library)?;
                self.kept(bench, "kernel", |it| {
                    made(it, "cuLibraryGetKernel", words![library, c"fill"])
                })
            }
            Object::Graph => {
                self.kept(bench, "graph", |it| made(it, "cuGraphCreate", words![0u32]))
            }
            Object::Node => {
                let graph = self.object(bench, Object::Graph)?;
                self.kept(bench, "node", |it| {
                    let rest = words![graph, Word::NULL, 0usize];
                    made(it, "cuGraphAddEmptyNode", rest)
                })
            }
            Object::Exec => {
                let graph = self.object(bench, Object::Graph)?;
                self.kept(bench, "exec", |it| {
                    made(it, "cuGraphInstantiateWithFlags", words![graph, 0u64])
                })
            }
            Object::Link => self.kept(bench, "link", |it| {
                let mut link = 0u64;
                let rest = words![0u32, Word::NULL, Word::NULL, &mut link];
                it.ok("cuLinkCreate_v2", rest)?;
                Ok(link)
            }),
            Object::Pool => self.kept(bench, "pool", |it| {
                made(it, "cuDeviceGetDefaultMemPool", words![0i32])
            }),
            Object::User => self.kept(bench, "user object", |it| {
                let destroy = (callback as *const ()).expose_provenance();
                let rest = words![Word::NULL, destroy, 1u32, 1u32];
                made(it, "cuUserObjectCreate", rest)
            }),
            Object::Array => self.kept(bench, "array", |it| {
                // An array of 64 by 64 with one 32-bit unsigned channel.
                let descriptor: [u64; 3] = [64, 64, 3 | 1 << 32];
                made(it, "cuArrayCreate_v2", words![&descriptor])
            }),
            Object::Mipmapped => self.kept(bench, "mipmapped", |it| {
                let descriptor: [u64; 5] = [64, 64, 0, 3 | 1 << 32, 0];
                made(it, "cuMipmappedArrayCreate", words![&descriptor, 1u32])
            }),
            Object::Physical => self.kept(bench, "physical", |it| {
                let properties = pinned();
                let mut size = 0usize;
                it.ok(
                    "cuMemGetAllocationGranularity",
                    words![&mut size, &properties, 0i32],
                )?;
                made(it, "cuMemCreate", words![size, &properties, 0u64])
            }),
            Object::Texture => {
                let address = self.object_memory(bench)?;
                self.kept(bench, "texture", |it| {
                    // Linear memory of 64 texels with one 32-bit unsigned channel.
                    let mut resource = [0u64; 18];
                    (resource[0], resource[1]) = (2, address);
                    (resource[2], resource[3]) = (3 | 1 << 32, 256);
                    let sampling = [0u64; 16];
                    made(
                        it,
                        "cuTexObjectCreate",
                        words![&resource, &sampling, Word::NULL],
                    )
                })
            }
            Object::Surface => self.kept(bench, "surface", |it| {
                // The array must allow loads and stores through surfaces.
                let descriptor: [u64; 5] = [64, 64, 0, 3 | 1 << 32, 2];
                let array = made(it, "cuArray3DCreate_v2", words![&descriptor])?;
                let mut resource = [0u64; 18];
                resource[1] = array;
                made(it, "cuSurfObjectCreate", words![&resource])
            }),
        }
    }
}

/// `CUmemAllocationProp` of pinned memory of device 0 that is not shareable between processes.
pub(crate) fn pinned() -> [u32; 8] {
    // Type 1, no handle types, location of type 1 with number 0.
    [1, 0, 1, 0, 0, 0, 0, 0]
}
