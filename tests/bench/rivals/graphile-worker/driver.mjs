import { EventEmitter } from "node:events";
import { createRequire } from "node:module";
import pg from "pg";
import { check, closed, drive, emit, enqueue, go, poster, produce } from "./protocol.mjs";

// Read when the package loads: a log line per job would go to stdout and be measured.
process.env.NO_LOG_SUCCESS = "1";
const { Logger, run, runMigrations } = await import("graphile-worker");
const { version } = createRequire(import.meta.url)("graphile-worker/package.json");

const connectionString = process.env.DATABASE_URL;
// As its own performance test sets them.
const concurrentJobs = Number(process.env.GRAPHILE_JOBS ?? 24);
const localQueueSize = Number(process.env.GRAPHILE_LOCAL_QUEUE ?? 500);
const logger = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(`${message}\n`);
});

// The documented SQL function; the same call from JavaScript sends every row back.
const ADD = `
  select count(*)
  from graphile_worker.add_jobs(array(
    select json_populate_recordset(null::graphile_worker.job_spec, $1::json)
  ))`;

const BATCHED = { completeJobBatchDelay: 0, failJobBatchDelay: 0 };

function adder(connections) {
  const pool = new pg.Pool({ connectionString, max: connections, min: connections });
  const spec = (payload) => ({ identifier: "pay", payload });
  const add = (jobs) => pool.query(ADD, [JSON.stringify(jobs.map(spec))]);
  return { pool, add };
}

const start = (pay, { concurrentJobs, localQueue, events }) =>
  run({
    preset: { worker: { connectionString, logger, concurrentJobs, localQueue, ...BATCHED } },
    events,
    noHandleSignals: true,
    parsedCronItems: [],
    taskList: { pay },
  });

await drive({
  async prepare() {
    await runMigrations({ connectionString, logger });
    emit("prepared", { version });
  },

  async enqueue(count) {
    const connections = 2;
    const { pool, add } = adder(connections);
    await pool.query("select 1");
    emit("ready");
    await go();
    await enqueue(Number(count), { batch: 5000, connections }, add);
    emit("done");
  },

  async work(count) {
    emit("ready");
    await go();
    let left = Number(count);
    let finish;
    const finished = new Promise((resolve) => (finish = resolve));
    const pay = (payload) => {
      check(payload);
      if (--left === 0) finish();
    };
    const runner = await start(pay, { concurrentJobs, localQueue: { size: localQueueSize } });
    await finished;
    // Resolves after the last batch of completions has been written.
    await runner.stop();
    emit("done");
  },

  async call(url, concurrency) {
    const concurrentJobs = Number(concurrency);
    const localQueue = { size: Math.max(500, concurrentJobs) };
    const events = new EventEmitter();
    // Emitted just before LISTEN is sent, so an empty query behind it is answered once the worker listens.
    events.once("pool:listen:success", ({ client }) =>
      setImmediate(() => client.query("select 1").then(() => emit("ready"))),
    );
    const runner = await start(poster(url), { concurrentJobs, localQueue, events });
    await closed();
    await runner.stop();
  },

  async produce(rate, seconds) {
    const { pool, add } = adder(1);
    await pool.query("select 1");
    emit("ready");
    await go();
    await produce(Number(rate), Number(seconds), add);
    emit("done");
  },
});
