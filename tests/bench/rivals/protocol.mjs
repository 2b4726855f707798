// The driver protocol, shared by the Node rivals: events on stdout, one line on stdin to go, its end to stop.
import { Agent, request } from "node:http";

const payload = JSON.parse(process.env.BENCH_PAYLOAD ?? "{}");

export const emit = (event, fields) => process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);

export const job = (n) => ({ ...payload, n });

export const go = () => new Promise((resolve) => process.stdin.once("data", resolve));

export const closed = () => new Promise((resolve) => process.stdin.once("end", resolve).resume());

export const check = ({ n }) => {
  if (!Number.isInteger(n)) throw new Error(`n is not an integer: ${n}`);
};

/** Adds `count` jobs in batches over a few connections at once; `insert` resolves when its batch is committed. */
export async function enqueue(count, { batch, connections }, insert) {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const from = next;
      next = Math.min(from + batch, count);
      await insert(Array.from({ length: next - from }, (_, i) => job(from + i)));
    }
  };
  await Promise.all(Array.from({ length: connections }, lane));
}

/** Offers `rate` jobs a second; a slow insert delays the next one but drops nothing. */
export async function produce(rate, seconds, insert) {
  const began = performance.now();
  let next = 0;
  for (let tick = 1; tick <= seconds * 100; tick++) {
    const wait = began + tick * 10 - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const from = next;
    next = Math.floor((tick * rate) / 100);
    if (next === from) continue;
    await insert(Array.from({ length: next - from }, (_, i) => job(from + i)));
    const at = Math.round((performance.timeOrigin + performance.now()) * 1000);
    emit("committed", { from, count: next - from, at });
  }
}

/** A function that posts one payload over kept-alive connections and resolves after the whole 2xx reply. */
export function poster(url) {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity });
  return (body) =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(body);
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
      const call = request(url, { agent, method: "POST", headers }, (reply) => {
        const good = reply.statusCode >= 200 && reply.statusCode < 300;
        reply.once("end", () => (good ? resolve() : reject(new Error(`status ${reply.statusCode}`)))).resume();
      });
      call.once("error", reject).end(text);
    });
}

/** Runs the command named by the first argument with the others as arguments. */
export async function drive(commands) {
  const [name, ...rest] = process.argv.slice(2);
  if (!commands[name]) throw new Error(`unknown command ${name}; one of ${Object.keys(commands).join(", ")}`);
  await commands[name](...rest);
  process.exit(0);
}
