//! Module images that tenants gave this worker, as the device knows them.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bus_schemas::{
    Failure, FunctionFingerprint, KernelKey, KernelName, Launch, ModuleHash, ModuleId, Tenant,
    limits,
};
use dashmap::{DashMap, DashSet};
use device::{BlockBytes, ModuleInfo};
use gpu_worker_core::sequencer::ImageState;

/// What a launch needs to know of its module.
#[derive(Debug)]
pub(super) struct Module {
    hash: ModuleHash,
    /// By function index: what kernel keys are made of.
    pub(super) fingerprints: Vec<FunctionFingerprint>,
    /// Names by function index.
    functions: Vec<String>,
    /// What a block of each takes.
    pub(super) blocks: Vec<BlockBytes>,
}

impl Module {
    /// What the key of a launch of this module stands for.
    pub(super) fn name(&self, kernel: KernelKey, launch: &Launch) -> KernelName {
        let function = self.functions.get(launch.function as usize);
        let function = function.map_or("", |name| {
            let end = (0..=name.len().min(NAME_BYTES)).rfind(|end| name.is_char_boundary(*end));
            &name[..end.unwrap_or(0)]
        });
        KernelName {
            kernel,
            function: function.to_owned(),
            grid_dim: launch.grid,
            block_dim: launch.block,
            shared_bytes: launch.shared,
            module: Some(ModuleId(self.hash.short())),
        }
    }
}

/// Bytes of a function's name that the accounts keep.
const NAME_BYTES: usize = 512;
/// Kernel keys whose names were given on, at most: after so many they are given on again.
const NAMED: usize = 1 << 16;

/// What kernel keys stand for: each is given on once.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: RefCell<HashSet<KernelKey>>,
    untold: RefCell<HashMap<KernelKey, KernelName>>,
}

impl Names {
    /// Notes a key, if it is new.
    pub(super) fn note(&self, key: KernelKey, name: impl FnOnce() -> KernelName) {
        let mut known = self.known.borrow_mut();
        if known.len() >= NAMED {
            known.clear();
        }
        if known.insert(key) {
            self.untold.borrow_mut().insert(key, name());
        }
    }

    /// The names of these keys that were not given on yet.
    pub(super) fn take(&self, keys: impl Iterator<Item = KernelKey>) -> Vec<KernelName> {
        let mut untold = self.untold.borrow_mut();
        if untold.is_empty() {
            return Vec::new();
        }
        keys.filter_map(|key| untold.remove(&key)).collect()
    }
}

/// What became of an image.
#[derive(Debug, Clone)]
pub(super) enum ModuleState {
    /// The device is at it.
    Preparing,
    /// The device has it.
    Ready(Arc<Module>),
    /// The device cannot run it.
    Refused(Failure),
}

/// What the sequencer is told of an image.
pub(super) fn image_state(state: Option<&ModuleState>) -> ImageState<'_> {
    match state {
        None => ImageState::Unknown,
        Some(ModuleState::Preparing) => ImageState::Preparing,
        Some(ModuleState::Ready(_)) => ImageState::Ready,
        Some(ModuleState::Refused(failure)) => ImageState::Refused(failure),
    }
}

/// What images of which no session is left may take together.
const UNUSED: u64 = 256 << 20;
/// What an image takes beside what the device says: its entries here.
const ENTRY: u64 = 1 << 10;

/// Who uses an image.
#[derive(Debug, Default)]
struct Use {
    sessions: u32,
    bytes: u64,
    /// When the last session that used it ended, in ends of sessions.
    since: u64,
}

/// Every image is decoded once, whoever gave it; a tenant may use those it gave itself. An image
/// stays while a session has it that was told so, and after that as long as there is room.
#[derive(Debug, Default)]
pub(super) struct Modules {
    given: DashSet<(Tenant, ModuleHash)>,
    states: DashMap<ModuleHash, ModuleState>,
    uses: BTreeMap<ModuleHash, Use>,
    /// Ends of sessions so far.
    ends: u64,
    pub(super) names: Names,
    /// Blocks of one launch that the device has in progress at most.
    pub(super) blocks: u64,
}

impl Modules {
    /// No images yet, for a device that has so many blocks of a launch in progress at most.
    pub(super) fn new(blocks: u64) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// Whether the tenant gave this image before.
    pub(super) fn is_given(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        self.given.contains(&(tenant.clone(), hash))
    }

    /// The tenant gave the image; whether the device must still be asked to prepare it.
    pub(super) fn give(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        self.given.insert((tenant.clone(), hash));
        let mut new = false;
        self.states.entry(hash).or_insert_with(|| {
            new = true;
            ModuleState::Preparing
        });
        new
    }

    /// The device has answered.
    pub(super) fn prepared(&mut self, hash: ModuleHash, answer: Result<ModuleInfo, Failure>) {
        let bytes = answer.as_ref().map_or(0, |info| info.bytes);
        self.uses.entry(hash).or_default().bytes = bytes + ENTRY;
        let state = match answer {
            Ok(info) => ModuleState::Ready(Arc::new(Module {
                hash,
                fingerprints: info
                    .functions
                    .iter()
                    .map(|function| FunctionFingerprint::new(&hash, &function.name))
                    .collect(),
                blocks: info.functions.iter().map(|it| it.block).collect(),
                functions: info.functions.into_iter().map(|it| it.name).collect(),
            })),
            Err(failure) => ModuleState::Refused(failure),
        };
        self.states.insert(hash, state);
    }

    /// A session's client is told that it may load the image.
    pub(super) fn hold(&mut self, hash: ModuleHash) {
        self.uses.entry(hash).or_default().sessions += 1;
    }

    /// A session that held these has ended.
    pub(super) fn release(&mut self, images: &[ModuleHash]) {
        self.ends += 1;
        for hash in images {
            if let Some(it) = self.uses.get_mut(hash) {
                it.sessions = it.sessions.saturating_sub(1);
                it.since = self.ends;
            }
        }
    }

    /// Images that the device is at.
    pub(super) fn preparing(&self) -> Vec<ModuleHash> {
        let states = self.states.iter();
        let preparing = states.filter(|it| matches!(**it, ModuleState::Preparing));
        let mut preparing: Vec<_> = preparing.map(|it| *it.key()).collect();
        preparing.sort_unstable();
        preparing
    }

    /// Forgets those of these images that are not prepared yet and that no session waits for: whoever
    /// wants one again sends it again.
    pub(super) fn give_up(&mut self, images: &[ModuleHash]) -> Vec<ModuleHash> {
        let unwanted = |hash: &&ModuleHash| {
            let waits = self.uses.get(*hash).is_some_and(|it| it.sessions > 0);
            let state = self.states.get(*hash);
            !waits && state.is_some_and(|state| matches!(*state, ModuleState::Preparing))
        };
        let gone: Vec<ModuleHash> = images.iter().filter(unwanted).copied().collect();
        for hash in &gone {
            self.uses.remove(hash);
            self.states.remove(hash);
        }
        if !gone.is_empty() {
            self.given.retain(|(_, hash)| !gone.contains(hash));
        }
        gone
    }

    /// Forgets images that no session uses, those unused longest first, until the rest is within
    /// its bound: whoever wants one again sends it again.
    pub(super) fn surplus(&mut self) -> Vec<ModuleHash> {
        let unused = self.uses.iter().filter(|(hash, it)| {
            let state = self.states.get(hash);
            let settled = !state.is_some_and(|state| matches!(*state, ModuleState::Preparing));
            it.sessions == 0 && settled
        });
        let mut unused: Vec<_> = unused
            .map(|(hash, it)| (it.since, *hash, it.bytes))
            .collect();
        let mut sum: u64 = unused.iter().map(|(_, _, bytes)| bytes).sum();
        unused.sort_unstable();
        let mut gone = Vec::new();
        for (_, hash, bytes) in unused {
            if sum <= UNUSED {
                break;
            }
            sum -= bytes;
            self.uses.remove(&hash);
            self.states.remove(&hash);
            gone.push(hash);
        }
        if !gone.is_empty() {
            self.given.retain(|(_, hash)| !gone.contains(hash));
        }
        gone
    }

    /// What to tell leaders of: images that sessions have, and of those that none has the ones used
    /// last, each with all tenants that gave it.
    pub(super) fn images(&self) -> Vec<(Tenant, u64)> {
        let last = |hash: &ModuleHash| {
            let used = self.uses.get(hash);
            used.map(|it| (it.sessions > 0, it.since))
        };
        let given = self.given.iter().filter_map(|it| {
            let (tenant, hash) = it.key();
            Some((Reverse(last(hash)?), *hash, tenant.clone()))
        });
        let mut given: Vec<_> = given.collect();
        given.sort_unstable();
        given.truncate(limits::IMAGES);
        let named = given
            .into_iter()
            .map(|(_, hash, tenant)| (tenant, hash.short()));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        named
    }

    /// What the tenant's image is; `None` if it never gave it.
    pub(super) fn state(&self, tenant: &Tenant, hash: ModuleHash) -> Option<ModuleState> {
        let given = self.is_given(tenant, hash);
        given.then(|| self.states.get(&hash).map(|state| state.clone()))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_prepared_once_and_used_by_those_who_gave_it() {
        let mut modules = Modules::default();
        let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let hash = ModuleHash::of(b"image");
        assert!(modules.give(&a, hash), "new");
        assert!(
            modules.state(&b, hash).is_none(),
            "a hash alone proves nothing"
        );
        modules.prepared(
            hash,
            Ok(ModuleInfo {
                functions: Vec::new(),
                bytes: 0,
            }),
        );
        assert!(!modules.give(&b, hash), "prepared before");
        assert!(matches!(
            modules.state(&b, hash),
            Some(ModuleState::Ready(_))
        ));
    }

    #[test]
    fn what_no_session_uses_goes_when_it_is_too_much_the_oldest_first() {
        let mut modules = Modules::default();
        let tenant: Tenant = "a".parse().unwrap();
        let hashes = [b"a", b"b", b"c"].map(|image| ModuleHash::of(image));
        for hash in hashes {
            modules.hold(hash);
            assert!(modules.give(&tenant, hash));
            let info = ModuleInfo {
                functions: Vec::new(),
                bytes: UNUSED / 2,
            };
            modules.prepared(hash, Ok(info));
        }
        assert!(modules.surplus().is_empty(), "all are used");
        // Two sessions have the second one.
        modules.hold(hashes[1]);
        modules.release(&[hashes[2]]);
        modules.release(&[hashes[0], hashes[1]]);
        assert_eq!(modules.surplus(), [hashes[2]], "unused for longest");
        modules.release(&[hashes[1]]);
        assert_eq!(modules.surplus(), [hashes[0]]);
        let left = hashes.map(|hash| modules.is_given(&tenant, hash));
        assert_eq!(left, [false, true, false]);
        assert!(modules.give(&tenant, hashes[0]), "it is prepared again");
    }

    #[test]
    fn a_few_images_are_named_each_with_all_who_gave_it() {
        let mut modules = Modules::default();
        let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let hash = ModuleHash::of(b"image");
        assert_eq!(modules.images(), []);
        modules.hold(hash);
        modules.give(&b, hash);
        modules.give(&a, hash);
        assert_eq!(modules.images(), [(a, hash.short()), (b, hash.short())]);
        for image in 0..2 * limits::IMAGES {
            let hash = ModuleHash::of(&image.to_le_bytes());
            modules.hold(hash);
            modules.give(&"a".parse().unwrap(), hash);
        }
        assert_eq!(modules.images().len(), limits::IMAGES);
    }

    #[test]
    fn what_nobody_waits_for_is_given_up_while_it_is_prepared() {
        let mut modules = Modules::default();
        let (tenant, hash) = ("a".parse().unwrap(), ModuleHash::of(b"a"));
        modules.hold(hash);
        modules.hold(hash);
        modules.give(&tenant, hash);
        modules.release(&[hash]);
        assert_eq!(modules.give_up(&[hash]), [], "the other session waits");
        modules.release(&[hash]);
        assert_eq!(modules.give_up(&[hash]), [hash]);
        assert!(!modules.is_given(&tenant, hash) && modules.give(&tenant, hash));
        let failure = Failure::new(bus_schemas::Code::BadModule, "");
        modules.prepared(hash, Err(failure));
        assert_eq!(modules.give_up(&[hash]), [], "settled");
    }

    #[test]
    fn what_is_being_prepared_stays() {
        let mut modules = Modules::default();
        let (tenant, hash) = ("a".parse().unwrap(), ModuleHash::of(b"a"));
        modules.hold(hash);
        modules.give(&tenant, hash);
        modules.release(&[hash]);
        assert!(modules.surplus().is_empty() && modules.is_given(&tenant, hash));
        assert_eq!(modules.preparing(), [hash]);
        let info = ModuleInfo {
            functions: Vec::new(),
            bytes: UNUSED,
        };
        modules.prepared(hash, Ok(info));
        assert_eq!(modules.surplus(), [hash]);
    }
}
