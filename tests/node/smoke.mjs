// Asks a server what programs ask, with OpenAI's own client, and prints the answers as JSON.
//   node smoke.mjs http://127.0.0.1:8642/v1

import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const asked = {
  model: "local",
  messages: [{ role: "user", content: "Say hi." }],
  max_tokens: 6,
  // Forces a token, "STOP", whatever the model would say.
  logit_bias: { 48124: 100 },
};
const tool = {
  type: "function",
  function: {
    name: "warmth",
    parameters: {
      type: "object",
      properties: { room: { enum: ["hall"] } },
      required: ["room"],
      additionalProperties: false,
    },
  },
};

const whole = await client.chat.completions.create(asked);

let streamed = "";
let usage = null;
const stream = await client.chat.completions.create({
  ...asked,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}

const called = await client.chat.completions
  .stream({ ...asked, max_tokens: 60, logit_bias: {}, tools: [tool], tool_choice: "required" })
  .finalChatCompletion();
const response = await client.responses.create({
  model: "local",
  input: "Say hi.",
  max_output_tokens: 6,
});
const embeddings = await client.embeddings.create({ model: "local", input: ["a", "b"] });
const refusal = await client.chat.completions
  .create({ ...asked, model: "another" })
  .catch((error) => error);
const models = [];
for await (const model of client.models.list()) models.push(model.id);

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    streamed,
    same_usage: usage.total_tokens === whole.usage.total_tokens,
    called: called.choices[0].message.tool_calls.map((call) => call.function),
    response: response.output_text.length > 0,
    embeddings: embeddings.data.map((item) => item.embedding.length),
    refusal: [refusal.constructor.name, refusal.status, refusal.code],
    models,
  }),
);
