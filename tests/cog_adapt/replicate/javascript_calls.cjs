// Calls of npm's replicate 1.4.0; prints what each gave, as JSON.
const Replicate = require("replicate");

const options = { auth: process.env.REPLICATE_API_TOKEN, baseUrl: process.env.REPLICATE_BASE_URL };
const client = new Replicate(options);
const answers = {};

async function call(name, action) {
  try {
    answers[name] = await action();
  } catch (error) {
    answers[name] = `${error.name}: ${error.message}`;
  }
}

async function streamed(input) {
  const events = [];
  for await (const event of client.stream("any/name", { input })) {
    events.push([event.event, event.data]);
  }
  return events;
}

async function main() {
  const model = await client.models.get("any", "name");
  const version = model.latest_version.id;
  await call("run of a model", () => client.run("any/name", { input: { text: "x y" } }));
  await call("run of a version", () => client.run(`any/name:${version}`, { input: { text: "x y" } }));
  await call("run that outlasts the wait", () =>
    client.run("any/name", { input: { text: "x y", seconds: 1.5 }, wait: { mode: "block", timeout: 1 } }));
  await call("run with a file", () =>
    client.run("any/name", { input: { file: Buffer.from("content"), text: "z" } }));
  await call("stream", () => streamed({ text: "x y" }));
  await call("failed stream", () => streamed({ text: "x", fail: true }));
  await call("wrong input", () => client.run("any/name", { input: { nothing: 1 } }));
  await call("data-uri", () =>
    new Replicate({ ...options, fileEncodingStrategy: "data-uri" }).run("any/name", { input: { text: "x" } }));
  await call("canceled", async () => {
    const made = await client.predictions.create({ version, input: { seconds: 30 } });
    const told = await client.predictions.cancel(made.id);
    let seen = told;
    for (let turn = 0; turn < 400 && seen.status !== "canceled"; turn++) {
      await new Promise((resume) => setTimeout(resume, 50));
      seen = await client.predictions.get(made.id);
    }
    return [made.status, told.id === made.id, seen.status];
  });
  await call("pages", async () => {
    const creating = Array.from({ length: 101 }, () =>
      client.predictions.create({ version, input: { text: "p" } }));
    await Promise.all(creating);
    const ids = [];
    for await (const page of client.paginate(client.predictions.list)) {
      ids.push(...page.map((each) => each.id));
    }
    return [ids.length > 101, ids.length === new Set(ids).size];
  });
  await call("files", async () => {
    const made = await client.files.create(Buffer.from("abc"), { a: 1 });
    const listed = (await client.files.list()).results.map((each) => each.id);
    const found = await client.files.get(made.id);
    return [found.size, found.metadata, listed.includes(made.id), await client.files.delete(made.id)];
  });
  await call("facts", async () => {
    const deployment = await client.deployments.get("any", "name");
    const made = await client.deployments.predictions.create("any", "name", { input: { text: "d" } });
    return [
      (await client.accounts.current()).username,
      (await client.hardware.list()).map((each) => each.sku),
      (await client.models.versions.list("any", "name")).results.length,
      (await client.models.versions.get("any", "name", version)).id === version,
      deployment.current_release.version === version,
      (await client.wait(made, {})).output,
    ];
  });
  await call("secret", () => client.webhooks.default.secret.get());
  await call("trainings", async () => (await client.trainings.list()).results.length);
  console.log(JSON.stringify(answers));
}

main();
