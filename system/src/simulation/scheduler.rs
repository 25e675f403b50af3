//! Who runs next, and what the time is.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore as _, SeedableRng as _},
};
use tokio::{runtime::Runtime, task::JoinHandle};
use xxhash_rust::xxh3::Xxh3Default;

use super::{
    Number, interpose,
    network::{Cut, Network},
};

/// How far time goes with each step.
const STEP: Duration = Duration::from_millis(1);
const STACK_BYTES: usize = 1 << 20;
/// A thread that is run so often while another one waits for its end does not end.
const JOIN_TURNS_MAX: usize = 100_000;

/// A host, numbered from 0 as they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// It is killed; the kernel resets its connections and refuses new ones.
    Process,
    /// The power fails: its peers hear nothing any more.
    Power,
}

/// What all parts of a simulation share. Never borrowed while anything simulated runs.
pub(super) struct Shared {
    pub(super) random: ChaCha8Rng,
    pub(super) network: Network,
    pub(super) current: Option<HostId>,
    hosts: Vec<Host>,
    threads: BTreeMap<Number, Thread>,
    threads_made: Number,
    stacks: Vec<DefaultStack>,
    now: Duration,
    trace: Xxh3Default,
}

#[derive(Default)]
struct Host {
    wall_offset_ms: i64,
    disk_delay: Duration,
    is_running: bool,
    is_frozen: bool,
}

struct Thread {
    host: HostId,
    name: String,
    wake_at: Duration,
    /// None while it runs.
    coroutine: Option<Coroutine<(), Duration, ()>>,
}

thread_local! {
    static SHARED: RefCell<Option<Shared>> = const { RefCell::new(None) };
    /// The way back of the simulated thread that runs.
    static YIELDER: Cell<Option<*const Yielder<(), Duration>>> = const { Cell::new(None) };
}

/// Gives access to what is shared.
///
/// # Panics
/// Outside of a simulation.
pub(super) fn with<T>(action: impl FnOnce(&mut Shared) -> T) -> T {
    SHARED.with_borrow_mut(|shared| action(shared.as_mut().expect("no simulation runs in this thread")))
}

impl Shared {
    /// Notes a step of the course.
    pub(super) fn note(&mut self, what: &str, numbers: &[u64]) {
        self.trace.update(what.as_bytes());
        for number in numbers {
            self.trace.update(&number.to_le_bytes());
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// A number below `bound`.
    pub(super) fn draw(&mut self, bound: u64) -> u64 {
        if bound < 2 { 0 } else { self.random.next_u64() % bound }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = usize::try_from(self.draw(end as u64 + 1)).unwrap_or(0);
            items.swap(end, other);
        }
    }
}

/// Gives control back until a time; returns when the scheduler comes back.
///
/// # Panics
/// In code that does not run in a simulated thread: there it would block a whole host.
pub(super) fn suspend(until: Duration) {
    let yielder = YIELDER.get().expect("a call that blocks, outside of a simulated thread");
    // SAFETY: it was set by the coroutine that runs just now, on whose stack it lives.
    unsafe { (*yielder).suspend(until) };
    YIELDER.set(Some(yielder));
}

/// Waits for so long.
pub(super) fn pause(time: Duration) {
    suspend(with(|shared| shared.now) + time);
}

/// Lets everybody else run, once.
pub(super) fn give_way() {
    suspend(Duration::ZERO);
}

/// Waits as long as a write takes on the disk of the host that runs. What is no thread does not wait: it would block the host.
pub(super) fn wait_for_disk() {
    let delay = with(|shared| {
        let host = shared.current.and_then(|HostId(index)| shared.hosts.get(index));
        host.map_or(Duration::ZERO, |host| host.disk_delay)
    });
    if YIELDER.get().is_some() && !delay.is_zero() {
        pause(delay);
    }
}

/// Makes a thread of the host that runs.
pub(super) fn spawn(name: String, body: impl FnOnce() + 'static) -> Number {
    with(|shared| {
        let host = shared.current.expect("a thread belongs to a host");
        let stack = shared.stacks.pop();
        let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("no memory for a stack"));
        let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
            YIELDER.set(Some(std::ptr::from_ref(yielder)));
            body();
        });
        shared.threads_made += 1;
        let number = shared.threads_made;
        let thread = Thread { host, name, wake_at: shared.now, coroutine: Some(coroutine) };
        shared.threads.insert(number, thread);
        number
    })
}

/// Runs a thread until it gives control back; false if there is no such thread any more.
fn resume(number: Number) -> bool {
    let taken = with(|shared| {
        let thread = shared.threads.get_mut(&number)?;
        let coroutine = thread.coroutine.take()?;
        let (host, name) = (thread.host, thread.name.clone());
        shared.note(&name, &[number, shared.now.as_millis() as u64]);
        Some((coroutine, host))
    });
    let Some((mut coroutine, host)) = taken else { return false };
    let (before, yielder) = (enter(Some(host)), YIELDER.take());
    let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
    YIELDER.set(yielder);
    enter(before);
    with(|shared| match result {
        Ok(CoroutineResult::Yield(until)) => {
            if let Some(thread) = shared.threads.get_mut(&number) {
                thread.wake_at = until;
                thread.coroutine = Some(coroutine);
            } else {
                mem::forget(coroutine);
            }
        }
        Ok(CoroutineResult::Return(())) => {
            shared.threads.remove(&number);
            shared.stacks.push(coroutine.into_stack());
        }
        // The panic hook has told.
        Err(_) => drop(shared.threads.remove(&number)),
    });
    true
}

/// Runs another thread to its end, for code that is no simulated thread and must wait for it.
pub(super) fn finish(number: Number) {
    for _ in 0..JOIN_TURNS_MAX {
        if !resume(number) {
            return;
        }
    }
    panic!("a thread that is waited for does not end");
}

/// Whose code runs from here on; gives who was before.
fn enter(host: Option<HostId>) -> Option<HostId> {
    with(|shared| {
        let offset_ms = host.and_then(|HostId(index)| shared.hosts.get(index)).map_or(0, |host| host.wall_offset_ms);
        interpose::set_wall_offset_ms(offset_ms);
        mem::replace(&mut shared.current, host)
    })
}

/// A process that runs on a host.
struct Process {
    runtime: Runtime,
    main: JoinHandle<()>,
    /// Up to when its runtime was stepped.
    stepped_to: Duration,
}

/// The simulation of this thread. It ends with the thread.
pub struct Simulation {
    processes: BTreeMap<HostId, Process>,
}

impl Simulation {
    /// Begins a simulation; from here on this thread has its clock and its random numbers.
    ///
    /// # Panics
    /// When there is one in this thread already.
    #[must_use]
    pub fn new(seed: u64, host_names: &[&str]) -> Self {
        interpose::begin(seed);
        let shared = Shared {
            random: ChaCha8Rng::seed_from_u64(seed ^ 0x5eed),
            network: Network::new(host_names),
            current: None,
            hosts: host_names.iter().map(|_| Host::default()).collect(),
            threads: BTreeMap::new(),
            threads_made: 0,
            stacks: Vec::new(),
            now: Duration::ZERO,
            trace: Xxh3Default::new(),
        };
        let before = SHARED.replace(Some(shared));
        assert!(before.is_none(), "a thread runs one simulation");
        Self { processes: BTreeMap::new() }
    }

    /// Time since the begin.
    #[must_use]
    pub fn now(&self) -> Duration {
        with(|shared| shared.now)
    }

    /// A hash of all steps so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        with(|shared| shared.trace.digest())
    }

    /// Adds something that was seen to the trace.
    pub fn note(&self, what: &str) {
        with(|shared| shared.note(what, &[]));
    }

    /// Starts a process on a host, which runs `main`.
    ///
    /// # Panics
    /// When one runs there already, or tokio makes no runtime.
    pub fn start<F: Future<Output = ()> + Send + 'static>(&mut self, host: HostId, main: F) {
        assert!(!self.is_running(host), "a host runs one process");
        with(|shared| {
            shared.network.switch_on(host);
            shared.note("start", &[host.0 as u64]);
            if let Some(host) = shared.hosts.get_mut(host.0) {
                (host.is_running, host.is_frozen) = (true, false);
            }
        });
        let before = enter(Some(host));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("no runtime");
        let main = runtime.spawn(main);
        enter(before);
        self.processes.insert(host, Process { runtime, main, stepped_to: self.now() });
    }

    /// Ends a process in the middle of what it does.
    pub fn crash(&mut self, host: HostId, how: Crash) {
        let Some(process) = self.processes.remove(&host) else { return };
        let threads = with(|shared| {
            shared.note("crash", &[host.0 as u64]);
            if let Some(host) = shared.hosts.get_mut(host.0) {
                host.is_running = false;
            }
            let now = shared.now;
            shared.network.crash(host, how == Crash::Power, now);
            let (gone, stay) = mem::take(&mut shared.threads).into_iter().partition(|(_, thread)| thread.host == host);
            shared.threads = stay;
            let gone: BTreeMap<Number, Thread> = gone;
            gone
        });
        // Their destructors do not run.
        threads.into_values().filter_map(|thread| thread.coroutine).for_each(mem::forget);
        let before = enter(Some(host));
        drop(process.runtime);
        enter(before);
    }

    /// Whether a process runs there, frozen or not.
    #[must_use]
    pub fn is_running(&self, host: HostId) -> bool {
        self.processes.contains_key(&host)
    }

    /// Whether what was started there has come to its own end.
    #[must_use]
    pub fn has_ended(&self, host: HostId) -> bool {
        self.processes.get(&host).is_some_and(|process| process.main.is_finished())
    }

    /// Freezes a process, or lets it go on: SIGSTOP and SIGCONT.
    pub fn set_frozen(&mut self, host: HostId, is_frozen: bool) {
        with(|shared| {
            if let Some(host) = shared.hosts.get_mut(host.0) {
                host.is_frozen = is_frozen;
            }
        });
    }

    /// Puts the wall clock of a host off by so much.
    pub fn set_wall_offset_ms(&mut self, host: HostId, offset_ms: i64) {
        with(|shared| {
            if let Some(host) = shared.hosts.get_mut(host.0) {
                host.wall_offset_ms = offset_ms;
            }
        });
    }

    /// Lets each write to the disk of a host take so long.
    pub fn set_disk_delay(&mut self, host: HostId, delay: Duration) {
        with(|shared| {
            if let Some(host) = shared.hosts.get_mut(host.0) {
                host.disk_delay = delay;
            }
        });
    }

    /// Cuts or mends the way from one host to another.
    pub fn set_cut(&mut self, cut: Cut, is_cut: bool) {
        with(|shared| shared.network.set_cut(cut, is_cut));
    }

    /// Most time that a message takes on the way.
    pub fn set_delay_max(&mut self, delay: Duration) {
        with(|shared| shared.network.delay_max = delay);
    }

    /// Lets the time go on by a step.
    pub fn step(&mut self) {
        let mut hosts: Vec<_> = self.processes.keys().copied().collect();
        let now = with(|shared| {
            shared.now += STEP;
            interpose::set_now(shared.now);
            Network::deliver(shared);
            hosts.retain(|host| shared.hosts.get(host.0).is_some_and(|host| !host.is_frozen));
            shared.shuffle(&mut hosts);
            shared.now
        });
        for host in hosts {
            self.step_host(host, now);
        }
        let threads = with(|shared| {
            let Shared { threads, hosts, .. } = &*shared;
            let may_run = |thread: &Thread| {
                thread.wake_at <= now && hosts.get(thread.host.0).is_some_and(|host| host.is_running && !host.is_frozen)
            };
            let mut due: Vec<_> = threads.iter().filter(|(_, thread)| may_run(thread)).map(|(n, _)| *n).collect();
            shared.shuffle(&mut due);
            due
        });
        for thread in threads {
            resume(thread);
        }
    }

    fn step_host(&mut self, host: HostId, now: Duration) {
        let Some(process) = self.processes.get_mut(&host) else { return };
        let gone_by = now.saturating_sub(process.stepped_to);
        process.stepped_to = now;
        let before = enter(Some(host));
        process.runtime.block_on(async {
            if let Some(frozen) = gone_by.checked_sub(STEP).filter(|time| !time.is_zero()) {
                tokio::time::advance(frozen).await;
            }
            tokio::time::sleep(STEP).await;
        });
        enter(before);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        for host in self.processes.keys().copied().collect::<Vec<_>>() {
            self.crash(host, Crash::Power);
        }
    }
}
