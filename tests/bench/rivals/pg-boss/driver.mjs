import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import PgBoss from "pg-boss";
import { check, closed, drive, emit, enqueue, go, poster, produce } from "./protocol.mjs";

const { version } = createRequire(import.meta.url)("pg-boss/package.json");
const queue = "pay";

// A worker made by `work` asks every 500 ms at best, so these commands fetch and complete by themselves.
const idle_ms = 5;
// How many jobs one fetch brings at most where nothing is called.
const batch = Number(process.env.PG_BOSS_BATCH ?? 500);

async function connect(max) {
  const quiet = { supervise: false, schedule: false, migrate: false };
  const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, max, ...quiet });
  boss.on("error", (error) => process.stderr.write(`${error.message}\n`));
  await boss.start();
  return boss;
}

const inserter = (boss) => (jobs) => boss.insert(jobs.map((data) => ({ name: queue, data })));

/** Writes completions one batch at a time; what ends meanwhile goes with the next batch. */
function completer(boss) {
  let waiting = [];
  let writing;
  const write = async () => {
    while (waiting.length > 0) {
      const ids = waiting;
      waiting = [];
      await boss.complete(queue, ids);
    }
    writing = undefined;
  };
  return {
    done: (id) => {
      waiting.push(id);
      writing ??= Promise.resolve().then(write);
    },
    idle: () => writing,
  };
}

await drive({
  async prepare() {
    const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, supervise: false, schedule: false });
    await boss.start();
    await boss.createQueue(queue);
    emit("prepared", { version });
  },

  async enqueue(count) {
    const connections = 2;
    const boss = await connect(connections);
    emit("ready");
    await go();
    await enqueue(Number(count), { batch: 5000, connections }, inserter(boss));
    emit("done");
  },

  async work(count) {
    const lanes = 2;
    const boss = await connect(lanes);
    emit("ready");
    await go();
    let left = Number(count);
    const lane = async () => {
      while (left > 0) {
        const jobs = await boss.fetch(queue, { batchSize: batch, priority: false });
        if (jobs.length === 0) {
          await sleep(idle_ms);
          continue;
        }
        for (const { data } of jobs) check(data);
        await boss.complete(queue, jobs.map(({ id }) => id));
        left -= jobs.length;
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    emit("done");
  },

  async call(url, concurrency) {
    const boss = await connect(2);
    const post = poster(url);
    const completions = completer(boss);
    let free = Number(concurrency);
    let stopping = false;
    const stopped = closed().then(() => (stopping = true));
    const one = async ({ id, data }) => {
      try {
        await post(data);
        completions.done(id);
      } catch (error) {
        await boss.fail(queue, id, error);
      } finally {
        free++;
      }
    };
    emit("ready");
    while (!stopping) {
      const jobs = free > 0 ? await boss.fetch(queue, { batchSize: free, priority: false }) : [];
      free -= jobs.length;
      for (const job of jobs) one(job);
      if (jobs.length === 0) await sleep(idle_ms);
    }
    await stopped;
    while (free < Number(concurrency)) await sleep(idle_ms);
    await completions.idle();
  },

  async produce(rate, seconds) {
    const boss = await connect(1);
    emit("ready");
    await go();
    await produce(Number(rate), Number(seconds), inserter(boss));
    emit("done");
  },
});
