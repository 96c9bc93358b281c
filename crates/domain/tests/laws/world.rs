//! A tiny world to try the rules in: one project, its pools and tasks, and a clock that stands
//! still unless it is moved.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_domain::command::{Command, NewTask, Time};
use baton_domain::decide;
use baton_domain::decide::due_at;
use baton_domain::event::Event;
use baton_domain::history::{Past, past};
use baton_domain::ids::{AttemptId, PrincipalId, TaskId};
use baton_domain::pool::Pools;
use baton_domain::project::Project;
use baton_domain::reaction::Reaction;
use baton_domain::refusal::Refusal;
use baton_domain::run::{Held, Run};
use baton_domain::scene::{Around, Decision, Lease, LeaseChange, Needs, Scene};
use baton_domain::task::{Flow, Kind, Task};
use baton_domain::time::{Millis, Timestamp};

/// More passes than this for one moment mean that time fires the same thing for ever.
const PASSES_MAX: usize = 16;

/// Everything that one tenant has.
#[derive(Clone)]
pub struct World {
    pub project: Project,
    pub pools: Pools,
    pub tasks: BTreeMap<TaskId, Task>,
    pub leases: BTreeMap<TaskId, Lease>,
    /// What each task declares to wait for.
    pub edges: BTreeMap<TaskId, BTreeSet<TaskId>>,
    pub reactions: VecDeque<Reaction>,
    pub entries: BTreeMap<TaskId, Vec<Entry>>,
    pub records: BTreeMap<TaskId, Vec<Past>>,
    pub now: Timestamp,
    pub amnesty: Timestamp,
}

/// What one order did to a task.
#[derive(Clone)]
pub struct Entry {
    pub at: Timestamp,
    pub events: Vec<Event>,
}

impl World {
    /// A world without tasks.
    pub fn new(project: Project) -> Self {
        Self {
            project,
            pools: Pools::new(),
            tasks: BTreeMap::new(),
            leases: BTreeMap::new(),
            edges: BTreeMap::new(),
            reactions: VecDeque::new(),
            entries: BTreeMap::new(),
            records: BTreeMap::new(),
            now: Timestamp(1_000_000_000_000),
            amnesty: Timestamp(0),
        }
    }

    /// Makes a task.
    pub fn create(&mut self, task: NewTask) -> Result<TaskId, Refusal> {
        let id = TaskId(self.tasks.len() as u64 + 1);
        self.tell(id, &Command::Create(Box::new(task)))?;
        Ok(id)
    }

    /// Decides a command and carries out what it decides.
    pub fn tell(&mut self, id: TaskId, command: &Command) -> Result<Decision, Refusal> {
        let decision = self.ask(id, command)?;
        self.carry_out(id, &decision);
        Ok(decision)
    }

    /// Decides a command, and leaves everything as it is.
    pub fn ask(&self, id: TaskId, command: &Command) -> Result<Decision, Refusal> {
        let needs = command.needs(self.tasks.get(&id).map(|task| &task.flow));
        let around = self.around(id, &needs);
        let task = self.tasks.get(&id).map(|task| Task {
            flow: task.flow.clone(),
            brief: task.brief.clone().filter(|_| needs.brief),
        });
        let scene = Scene {
            task: task.as_ref(),
            lease: self.leases.get(&id),
            project: &self.project,
            pools: &self.pools,
            around: &around,
            amnesty: self.amnesty,
        };
        decide(&scene, command, self.now)
    }

    fn around(&self, id: TaskId, needs: &Needs) -> Around {
        let waiting_for = |on: TaskId| {
            let edges = self.edges.iter();
            edges.filter(move |(_, declared)| declared.contains(&on)).map(|(task, _)| *task)
        };
        let flows = self.tasks.values().map(|task| &task.flow);
        let children_of =
            |parent: TaskId| flows.clone().filter(move |f| f.parent() == Some(parent));
        let named =
            needs.named.iter().filter_map(|on| Some((*on, self.tasks.get(on)?.flow.clone())));
        let dependants = if needs.dependants { waiting_for(id).collect() } else { BTreeSet::new() };
        let children = children_of(id).filter(|_| needs.children);
        Around {
            next_id: self.tasks.len() as u64 + 1,
            named: named.collect(),
            siblings: needs.siblings_of.map_or(0, |parent| children_of(parent).count()),
            dependants,
            dependants_of_named: needs
                .named
                .iter()
                .map(|on| waiting_for(*on).count())
                .max()
                .unwrap_or(0),
            upstream: self.upstream(&needs.upstream_of),
            children: children.map(|flow| (flow.id, flow.ending().cloned())).collect(),
            dependencies: if needs.dependencies { self.declared(id) } else { BTreeSet::new() },
            holding: needs.holding.as_ref().and_then(|holder| self.held_by(holder)),
        }
    }

    fn declared(&self, id: TaskId) -> BTreeSet<TaskId> {
        self.edges.get(&id).cloned().unwrap_or_default()
    }

    fn upstream(&self, of: &BTreeSet<TaskId>) -> BTreeSet<TaskId> {
        let mut seen = BTreeSet::new();
        let mut rest: Vec<TaskId> = of.iter().copied().collect();
        while let Some(task) = rest.pop() {
            let epic = self.tasks.get(&task).filter(|it| it.flow.kind == Kind::Epic);
            let flows = self.tasks.values().map(|task| &task.flow);
            let children = flows.filter(|it| epic.is_some() && it.parent() == Some(task));
            let next = children.map(|child| child.id).chain(self.declared(task));
            rest.extend(next.filter(|on| seen.insert(*on)));
        }
        seen
    }

    fn held_by(&self, holder: &PrincipalId) -> Option<AttemptId> {
        let held = self.leases.iter().find(|(_, lease)| lease.holder == *holder);
        held.map(|(task, lease)| AttemptId { task: *task, number: lease.attempt })
    }

    fn carry_out(&mut self, id: TaskId, decision: &Decision) {
        for (place, event) in decision.events.iter().enumerate() {
            match self.tasks.get_mut(&id) {
                None => {
                    let born = Task::born(event, self.now).expect("the first event is the birth");
                    self.tasks.insert(id, born);
                }
                Some(task) => {
                    // The first event begins the entry; a birth has begun it already.
                    if place == 0 {
                        task.turn();
                    }
                    let rows = past(&task.flow, event, self.now);
                    self.records.entry(id).or_default().extend(rows);
                    task.apply(event, self.now);
                }
            }
            self.note_edges(id, event);
        }
        if !decision.events.is_empty() {
            let entry = Entry { at: self.now, events: decision.events.clone() };
            self.entries.entry(id).or_default().push(entry);
        }
        self.change_lease(id, decision.lease.as_ref());
        for change in &decision.pools {
            self.pools.entry(change.pool().clone()).or_default().apply(change, self.now);
        }
        self.reactions.extend(decision.reactions.iter().cloned());
    }

    fn change_lease(&mut self, id: TaskId, change: Option<&LeaseChange>) {
        match change {
            None => {}
            Some(LeaseChange::Grant(lease)) => {
                let before = self.leases.insert(id, lease.clone());
                assert_eq!(before, None, "{id} has two holders");
            }
            Some(LeaseChange::Renew { expires_at, length }) => {
                let lease = self.leases.get_mut(&id).expect("only a lease that is can last longer");
                lease.expires_at = *expires_at;
                lease.length = *length;
            }
            Some(LeaseChange::Heard { seq }) => {
                let lease = self.leases.get_mut(&id).expect("only a lease is heard under");
                lease.heard = *seq;
            }
            Some(LeaseChange::Drop) => {
                self.leases.remove(&id).expect("only a lease that is can be dropped");
            }
        }
    }

    fn note_edges(&mut self, id: TaskId, event: &Event) {
        let declared = self.edges.entry(id).or_default();
        if let Event::Created { task, .. } = event {
            declared.extend(&task.depends_on);
        }
        if let Event::DependencyAdded { on, .. } = event {
            declared.insert(*on);
        }
        if let Event::DependencyRemoved { on } = event {
            declared.remove(on);
        }
    }

    /// Carries out what tasks owe each other, until nothing is owed.
    pub fn settle(&mut self) {
        while let Some(reaction) = self.reactions.pop_front() {
            let to = reaction.to;
            let done = self.tell(to, &Command::Time(Time::React(reaction)));
            done.expect("a reaction is never refused");
        }
    }

    /// Lets everything happen to a task that is due, and says how often something did.
    pub fn pass(&mut self, id: TaskId) -> usize {
        for fired in 0..PASSES_MAX {
            let decision =
                self.tell(id, &Command::Time(Time::Pass)).expect("time is never refused");
            if decision.is_nothing() {
                return fired;
            }
        }
        panic!("{id}: time fires for ever");
    }

    /// The same world without its past, to try something out in.
    pub fn twin(&self) -> Self {
        Self {
            project: self.project.clone(),
            pools: self.pools.clone(),
            tasks: self.tasks.clone(),
            leases: self.leases.clone(),
            edges: self.edges.clone(),
            reactions: self.reactions.clone(),
            entries: BTreeMap::new(),
            records: BTreeMap::new(),
            ..*self
        }
    }

    /// Moves the clock.
    pub fn wait(&mut self, length: Millis) {
        self.now = self.now + length;
    }

    /// When something is due for a task next.
    pub fn due_at(&self, id: TaskId) -> Option<Timestamp> {
        due_at(self.flow(id), self.leases.get(&id), &self.project, self.amnesty)
    }

    /// Where a task stands.
    pub fn flow(&self, id: TaskId) -> &Flow {
        &self.tasks.get(&id).expect("the task was made").flow
    }

    /// The live run of a task.
    pub fn run(&self, id: TaskId) -> &Run {
        self.flow(id).run.as_ref().expect("the task has a live run")
    }

    /// The attempt that holds the run.
    pub fn held(&self, id: TaskId) -> &Held {
        self.run(id).held().expect("somebody holds the run")
    }

    /// The lease under which the run is held.
    pub fn lease(&self, id: TaskId) -> &Lease {
        self.leases.get(&id).expect("somebody holds a lease")
    }
}
