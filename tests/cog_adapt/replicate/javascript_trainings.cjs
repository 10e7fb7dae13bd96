// Trainings by npm's replicate 1.4.0; prints what each gave, as JSON.
const Replicate = require("replicate");

const options = { auth: process.env.REPLICATE_API_TOKEN, baseUrl: process.env.REPLICATE_BASE_URL };
const client = new Replicate(options);
const ROWS = JSON.stringify([{ text: "aa", label: "low" }, { text: "yy", label: "high" }]);

async function ended(training) {
  let seen = training;
  for (let turn = 0; turn < 600 && !seen.completed_at; turn++) {
    await new Promise((resume) => setTimeout(resume, 100));
    seen = await client.trainings.get(training.id);
  }
  return seen;
}

async function main() {
  const version = (await client.models.get("any", "name")).latest_version.id;
  const trained = (name, more) =>
    client.trainings.create("any", "name", version, {
      destination: `ada/${name}`,
      input: { examples: ROWS, ...more },
    });
  const made = await trained("javascript", {});
  const seen = await ended(made);
  const slow = await trained("never", { seconds: 60 });
  const told = await client.trainings.cancel(slow.id);
  const last = await ended(slow);
  const listed = (await client.trainings.list()).results.map((each) => each.id);
  const answers = {
    created: [made.status, made.destination],
    succeeded: [seen.status, seen.error],
    version: seen.output.version,
    canceled: [told.id === slow.id, last.status],
    listed: listed.includes(made.id) && listed.includes(slow.id),
    run: await client.run("any/name:javascript", { input: { text: "abc" } }),
  };
  console.log(JSON.stringify(answers));
}

main();
