// Reads JSON bodies as JavaScript does: a line in is { kind, body }, a line out is { node: [[place, text], …] }. Numbers come as numbers.
import { createInterface } from "node:readline";

function* flat(value, place = "") {
  if (value !== null && typeof value === "object") {
    for (const [name, member] of Object.entries(value)) yield* flat(member, `${place}/${name}`);
  } else {
    yield [place, value];
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { kind, body } = JSON.parse(line);
  let answer = {};
  if (kind === "json") {
    try {
      answer = { node: [...flat(JSON.parse(Buffer.from(body, "base64").toString("utf8")))] };
    } catch (error) {
      answer = { error: String(error) };
    }
  }
  console.log(JSON.stringify(answer));
}
