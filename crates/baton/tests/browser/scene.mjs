// A project in the middle of its day: something of everything that the pages show.
import { agent, caller } from './house.mjs';

const STAGES = [{ name: 'coding' }, { name: 'qa', worked_by: 'person' }, { name: 'merge', worked_by: 'person' }];

export async function fill(house) {
  const ask = caller(house);
  await ask('PUT', '/v1/projects/shop', { root: '/srv/shop', stages: STAGES });
  await ask('PUT', '/v1/pools/stage%20shop%20coding', { limit: 5 });
  const add = async (title, more = {}) => (await ask('POST', '/v1/tasks', { project: 'shop', title, ...more })).id;
  const fox = await agent(house, 'claude');
  const owl = await agent(house, 'codex');
  const elk = await agent(house, 'opencode');
  const tasks = {};

  // The backlog.
  await add('Rotate refresh tokens on every use and revoke the family on reuse', { priority: 'high', labels: ['auth'] });
  await add('Rate-limit the webhook intake per tenant', { labels: ['api'], priority: 'high' });
  await add('Paginate GET /runs with keyset cursors', { labels: ['api', 'perf'] });
  tasks.approval = await add('Delete the deprecated v0 import path', { labels: ['chore'], needs_approval: true, stage: 'coding' });
  tasks.draft = await add('Docs: how to restore from a checkpoint', { labels: ['docs'], draft: true, priority: 'low' });

  // One that was lost, was parked, and asks now.
  const contract = [
    { id: 'test', kind: 'gate', command: 'cargo test' },
    { id: 'clippy', kind: 'gate', command: 'cargo clippy -- -D warnings' },
    { id: 'survives', kind: 'criterion', text: 'Sessions survive a restart' },
  ];
  tasks.question = await add('Persist sessions across restarts', {
    body: 'Sessions live in memory: every deploy logs everybody out.\n\nKeep them in SQLite, keyed by cookie, with an expiry.',
    stage: 'coding', priority: 'urgent', labels: ['auth'], contract,
  });
  const first = await owl.claim(tasks.question, '1s');
  await first.say('progress', { summary: 'Read the session middleware', done: ['read the middleware'] });
  await first.say('checkpoints', { summary: 'The store is written and tested', cursor: 'crates/auth/src/store.rs' });
  await until(async () => (await ask('GET', `/v1/runs/${first.run}`)).state === 'queued');
  const second = await fox.claim(tasks.question);
  await second.say('progress', { summary: 'Wiring the store into the middleware', done: ['store'] });
  await second.say('checkpoints', { summary: 'Store round-trip is green', cursor: 'cookie rename' });
  await second.say('ask', { question: 'Keep the old cookie name for one release, or break sessions now?\n\n'
    + 'Renaming `sid` to `__Host-sid` logs everyone out unless both names are read for a while. The contract does not say which.' });
  tasks.asking = second;

  // Others at work.
  tasks.working = await add('Stream run events over SSE with Last-Event-ID resume', { stage: 'coding', priority: 'high', labels: ['api'] });
  const third = await fox.claim(tasks.working);
  await third.say('progress', { summary: 'cargo clippy --all', done: ['a', 'b'] });
  tasks.hand = third;
  const more = await add('Move the retry policy into the task contract', { stage: 'coding' });
  await (await owl.claim(more)).say('progress', { summary: 'cargo test -p auth' });

  // One that failed, one that is parked.
  tasks.failed = await add('Postgres: SKIP LOCKED claim path', { stage: 'coding', priority: 'high', policy: { attempts_max: 1 } });
  await (await elk.claim(tasks.failed)).say('fail', { code: 'gate_failed', reason: 'claim_is_fair timed out after 30 s, twice' });
  tasks.parked = await add('Slack notification for blocked runs', { stage: 'coding' });
  const parked = await elk.claim(tasks.parked);
  await parked.say('checkpoints', { summary: 'The message is built, the token is missing' });
  await parked.say('block', { kind: 'needs_input', reason: 'Which workspace shall it post to? There are two.' });

  // What has passed on.
  for (const title of ['Deadline watchdog with a grace period', 'Hash-chain the audit log', 'NO_COLOR and --color=never']) {
    const id = await add(title, { stage: 'coding' });
    await (await owl.claim(id)).say('complete', { summary: `${title}: done.` });
    await until(async () => (await ask('GET', `/v1/tasks/${id}`)).stage === 'qa');
    await ask('POST', `/v1/tasks/${id}/move`, { stage: 'qa' }, true);
  }
  return tasks;
}

// Asks again until it is so.
export async function until(is, tries = 200) {
  for (let n = 0; n < tries; n += 1) {
    if (await is()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('it never came to that');
}
