//! One request: who asks, what came with it, and the short ways from an operation to the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_domain::channel::ChannelCommand;
use baton_domain::command::{Command, Expect, Person, Supervisor};
use baton_domain::ids::{AttemptId, ProjectId, RunId, TaskId};
use baton_domain::project::RecordCommand;
use baton_domain::task::Flow;
use baton_domain::text::Text;
use baton_store::order::Kind;
use baton_store::read::LeaseRow;
use baton_store::{Actor, Aim, Committed, Cursor, Order, Request, TaskRow, Told};

use crate::answered::Answered;
use crate::declaration::{Audience, Declaration};
use crate::engine::Engine;
use crate::identity::{Caller, How, Identity};
use crate::problem::Problem;
use crate::redaction::{Redactor, Tally};
use crate::shape::{RunRef, Violation};
use crate::tokens::Pass;
use crate::views::{RunView, TaskView};

mod patience;
mod runs;

pub use patience::Patience;

/// What comes with a request besides its arguments. Secrets are here and nowhere else.
#[derive(Clone, Debug, Default)]
pub struct Envelope {
    /// So that a repeated request is carried out once.
    pub request_key: Option<Text<255>>,
    /// Only if the task is still at this version.
    pub if_match: Option<u64>,
    /// What ties it to other records of the same request.
    pub trace: Option<Text<64>>,
    /// What proves the attempt; checked when the call was made.
    pub pass: Option<Pass>,
}

impl Envelope {
    /// Whether a request that changes something says under which key it may be repeated.
    pub fn check_key(&self, about: &Declaration) -> Result<(), Problem> {
        if about.takes_request_key() && self.request_key.is_none() {
            let detail = "a request that changes something needs an Idempotency-Key";
            return Err(Problem::new("malformed", detail));
        }
        Ok(())
    }
}

/// The trace id of a W3C trace context. One that cannot be read is ignored, as its rules ask.
#[must_use]
pub fn trace_id(text: &str) -> Option<Text<64>> {
    let mut parts = text.split('-');
    let (version, id) = (parts.next()?, parts.next()?);
    let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let good = version.len() == 2 && hex(version) && id.len() == 32 && hex(id);
    let said = id.bytes().any(|byte| byte != b'0');
    (good && said && parts.count() >= 2).then(|| Text::new("trace", id).ok()).flatten()
}

/// One request.
pub struct Call {
    identity: Arc<Identity>,
    engine: Arc<Engine>,
    caller: Caller,
    envelope: Envelope,
    origin: Text<64>,
    fingerprint: [u8; 32],
    committed: AtomicBool,
}

impl Call {
    /// Puts a request together. The fingerprint covers everything that was asked, so that a key
    /// cannot be used again for something else.
    #[must_use]
    pub fn new(
        identity: Arc<Identity>,
        caller: Caller,
        envelope: Envelope,
        origin: Text<64>,
        asked: (&Declaration, &serde_json::Value),
    ) -> Self {
        let (about, arguments) = asked;
        let engine = Arc::clone(identity.engine());
        // Objects are written with their keys in order, so equal requests have equal bytes.
        let (name, arguments) = (about.name(), arguments.to_string());
        let version = envelope.if_match.unwrap_or(0).to_be_bytes();
        // It is kept, and the arguments may hold what is kept nowhere else: without the pepper
        // nobody can try which ones they were.
        let asked = [name.as_bytes(), arguments.as_bytes(), &version];
        let fingerprint = engine.keyring().fingerprint(&asked);
        let committed = AtomicBool::new(false);
        Self { identity, engine, caller, envelope, origin, fingerprint, committed }
    }

    /// A request of the same caller within this one.
    #[must_use]
    pub fn within(&self, envelope: Envelope, asked: (&Declaration, &serde_json::Value)) -> Self {
        let (identity, caller) = (Arc::clone(&self.identity), self.caller.clone());
        Self::new(identity, caller, envelope, self.origin.clone(), asked)
    }

    /// Whether the caller may ask this, and has said what it takes to.
    pub fn admit(&self, about: &Declaration) -> Result<(), Problem> {
        if let Some(scope) = about.scope().filter(|scope| !self.caller.may(scope)) {
            let detail = format!("the key does not have the scope {scope}");
            return Err(Problem::new("forbidden", detail).with("scope", scope.to_string()));
        }
        let inside = self.envelope.pass.is_some();
        match (about.audience, self.caller.kind) {
            (Audience::Person, Kind::Agent | Kind::Worker) => {
                let detail = format!("only a person may say `{} {}`", about.noun, about.verb);
                return Err(Problem::new("not_for_you", detail));
            }
            (Audience::Person, _) if inside => {
                let detail =
                    "whoever shows a claim token is an agent, and only a person may say this";
                return Err(Problem::new("not_for_you", detail).next("baton ask \"…\""));
            }
            (Audience::Anyone | Audience::Agent | Audience::Supervisor | Audience::Person, _) => {}
        }
        if self.envelope.if_match.is_some() && !about.takes_version() {
            let detail = "If-Match is for requests that change one task or its run";
            return Err(Problem::new("malformed", detail));
        }
        let key = self.envelope.request_key.as_ref();
        if key.is_some_and(|key| self.redactor().text(key.as_str()).is_some()) {
            let rule = "must not contain a secret".to_owned();
            let field = "Idempotency-Key".to_owned();
            return Err(Problem::invalid(vec![Violation { field, rule }]));
        }
        self.envelope.check_key(about)
    }

    /// The only way anything changes.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Who is who, and what keys allow.
    #[must_use]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// By which way it was asked, for what is not asked of a task.
    #[must_use]
    pub fn how(&self) -> How {
        let (origin, trace) = (self.origin.clone(), self.envelope.trace.clone());
        How { origin, trace, request: self.request() }
    }

    /// Who asks.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What came with the request.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Who asks, as history keeps it.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor {
            principal: self.caller.principal.clone(),
            kind: self.caller.kind,
            origin: self.origin.clone(),
            trace: self.envelope.trace.clone(),
        }
    }

    /// The key of the request, and what it was for.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        let key = self.envelope.request_key.clone()?;
        Some(Request { key, fingerprint: self.fingerprint, asked_in: None })
    }

    /// What keeps secrets out of what is written down.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        self.engine.redactor()
    }

    /// Counts what was masked in the arguments, and answers how much it was.
    pub fn note_redacted(&self, about: &Declaration, tally: Tally) -> u64 {
        if !tally.is_empty() {
            self.engine.metrics().redacted(tally.known, tally.shapes);
            let (tenant, operation) = (&self.caller.tenant, about.name());
            tracing::info!(%tenant, operation, count = tally.total(), "secrets were redacted");
        }
        tally.total()
    }

    /// Something that was asked for is done: whatever fails from now on, it has happened.
    pub fn note_commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Whether something that was asked for is done.
    #[must_use]
    pub fn has_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Whether this request was carried out before: its answer is known, and nothing will happen.
    pub async fn is_repeated(&self) -> Result<bool, Problem> {
        let Some(request) = self.request() else { return Ok(false) };
        let Caller { tenant, principal, .. } = &self.caller;
        let before = self.engine.asked_before(tenant, principal, request.key.as_str()).await?;
        Ok(before == Some(request.fingerprint))
    }

    /// A refusal that says whether what was asked for has happened. What was committed stays so, even
    /// if the answer to it could not be put together; and so does what the same request did before,
    /// whatever stands in its way by now.
    pub async fn certain(&self, problem: Problem) -> Result<Problem, Problem> {
        let happened =
            self.has_committed() || (!problem.is_of_the_store() && self.is_repeated().await?);
        Ok(if happened { problem.after_all() } else { problem })
    }

    /// How far the events of the caller's tenant are.
    pub async fn as_of(&self) -> Result<Cursor, Problem> {
        Ok(self.cursor(self.engine.head(&self.caller.tenant).await?))
    }

    /// Carries out commands on a task.
    pub async fn on_task(&self, id: TaskId, commands: Vec<Command>) -> Result<Done, Problem> {
        self.submit(Aim::Task(id, commands)).await
    }

    /// Carries out what a person says of a task, if it still is at the version of `If-Match`.
    pub async fn say(&self, id: TaskId, says: Person) -> Result<Done, Problem> {
        self.say_of(RunRef::Live(id), says).await
    }

    /// Carries out what a person says of a run, if it is the live one.
    pub async fn say_of(&self, run: RunRef, says: Person) -> Result<Done, Problem> {
        let commands = vec![self.expect(run), Command::Person(says)];
        self.on_task(self.task_of(run)?, commands).await
    }

    fn expect(&self, run: RunRef) -> Command {
        let run = match run {
            RunRef::Run(run) => Some(run.number),
            RunRef::Live(_) | RunRef::Mine => None,
        };
        Command::Expect(Expect { version: self.envelope.if_match, run })
    }

    /// Carries out a command on a project or a pool.
    pub async fn on_record(
        &self,
        command: RecordCommand,
        project: Option<ProjectId>,
    ) -> Result<Committed, Problem> {
        let order = self.order(Aim::Record(command, project));
        let committed = self.engine.submit(order).await?;
        self.note_commit();
        Ok(committed)
    }

    /// Carries out something about a channel.
    pub async fn on_channel(&self, command: ChannelCommand) -> Result<Committed, Problem> {
        let committed = self.engine.submit(self.order(Aim::Channel(command))).await?;
        self.note_commit();
        Ok(committed)
    }

    /// Carries out something whose answer is a task.
    pub async fn submit(&self, aim: Aim) -> Result<Done, Problem> {
        self.carry_out(self.order(aim)).await
    }

    async fn carry_out(&self, order: Order) -> Result<Done, Problem> {
        let committed = self.engine.submit(order).await?;
        self.note_commit();
        let flow = committed.task.clone().ok_or_else(Problem::not_found)?;
        Ok(Done { flow, committed })
    }

    fn order(&self, aim: Aim) -> Order {
        Order {
            tenant: self.caller.tenant.clone(),
            actor: self.actor(),
            aim,
            request: self.request(),
        }
    }

    /// A task of the caller's tenant.
    pub async fn task(&self, id: TaskId) -> Result<TaskRow, Problem> {
        Ok(self.look_at(id).await?.what)
    }

    /// A task of the caller's tenant, and how far the events were when it was read.
    pub async fn look_at(&self, id: TaskId) -> Result<Told<TaskRow>, Problem> {
        let Told { what, as_of } = self.engine.task(&self.caller.tenant, id).await?;
        Ok(Told { what: what.ok_or_else(Problem::not_found)?, as_of })
    }

    /// A place in the events of the caller's tenant.
    #[must_use]
    pub fn cursor(&self, position: u64) -> Cursor {
        Cursor { incarnation: self.engine.incarnation(), position }
    }

    /// An answer to something that was carried out.
    #[must_use]
    pub fn done<T>(&self, value: T, committed: &Committed) -> Answered<T> {
        Answered::done(value, committed, self.engine.incarnation())
    }

    /// The task that something was carried out on.
    pub async fn task_view(&self, done: &Done) -> Result<Answered<TaskView>, Problem> {
        let now = self.engine.now();
        if let (Some(row), Some(_)) = (done.row(), done.committed.position) {
            return Ok(self.done(TaskView::of(&row, now), &done.committed));
        }
        let Told { what: row, as_of } = self.look_at(done.flow.id).await?;
        let answered = self.done(TaskView::of(&row, now), &done.committed);
        // The view was read after the commit, and may show more than it.
        Ok(Answered { as_of: Some(self.cursor(as_of)), ..answered })
    }

    /// The run that something was carried out on: live or finished, as it is now.
    pub async fn run_view(&self, done: &Done) -> Result<Answered<RunView>, Problem> {
        let Done { flow, committed } = done;
        let is_own = |view: &RunView| committed.run.is_none_or(|own| own == view.id.number);
        let live = RunView::live(flow, lease_row(committed).as_ref()).filter(is_own);
        let view = live.or_else(|| RunView::last(flow).filter(is_own));
        if let Some(view) = view {
            return Ok(self.done(view, committed));
        }
        // The request is repeated, and the task has had other runs since.
        let number = committed.run.ok_or_else(Problem::not_found)?;
        let full = self.run(RunId { task: flow.id, number }).await?;
        let view = RunView { version: Some(flow.version), ..RunView::of_row(&full.row) };
        Ok(self.done(view, committed))
    }

    /// The task whose run is meant. A run that is not the live one is told by the rules.
    pub fn task_of(&self, run: RunRef) -> Result<TaskId, Problem> {
        let pass = self.envelope.pass.as_ref();
        match run {
            RunRef::Run(run) => Ok(run.task),
            RunRef::Live(task) => Ok(task),
            RunRef::Mine => pass.map(|pass| pass.task).ok_or_else(|| {
                let detail = "`mine` is the run of a claim token, and none was shown";
                Problem::new("malformed", detail).next("export BATON_CLAIM_TOKEN=…")
            }),
        }
    }

    /// What the supervisor of an attempt says, or a solo agent of itself.
    pub async fn as_supervisor(
        &self,
        run: RunRef,
        attempt: Option<AttemptId>,
        says: Supervisor,
    ) -> Result<Done, Problem> {
        let (task, command) = self.supervisor_command(run, attempt, says)?;
        // No word on the run: what a late supervisor adds is of an attempt that is over.
        self.on_task(task, vec![command]).await
    }
}

/// The lease as readers see it.
fn lease_row(committed: &Committed) -> Option<LeaseRow> {
    committed.lease.as_ref().map(|lease| LeaseRow {
        attempt: lease.attempt,
        holder: lease.holder.clone(),
        expires_at: lease.expires_at,
    })
}

/// What was carried out on a task.
#[derive(Clone, Debug)]
pub struct Done {
    /// The task as it is now.
    pub flow: Arc<Flow>,
    /// Everything else.
    pub committed: Committed,
}

impl Done {
    /// The task as a read would find it, if the commit told all of it.
    fn row(&self) -> Option<TaskRow> {
        let brief = self.committed.brief.clone()?;
        Some(TaskRow { flow: Arc::clone(&self.flow), brief, lease: lease_row(&self.committed) })
    }
}
