/**
 * Ask a collection from TypeScript, and print passages with their citations.
 *
 * `npm install chromadb @chroma-core/huggingface-server tsx`, and a running `ingestor run`, whose service port
 * embeds the question.
 *
 *     npx tsx query.ts "How long may I keep a book?"
 */

import { HuggingfaceServerEmbeddingFunction } from "@chroma-core/huggingface-server";
import { ChromaClient, type Metadata } from "chromadb";

const [question, port = "8000"] = process.argv.slice(2);
if (!question) {
  console.error('usage: npx tsx query.ts "QUESTION" [PORT OF CHROMA]');
  process.exit(2);
}

const client = new ChromaClient({ host: "127.0.0.1", port: Number(port) });

/** Open by name each time: after a changed strategy the name belongs to another collection. */
async function open(name: string) {
  const { configuration } = await client.getCollection({ name });
  // The client does not find the collection's function by its name, so pass the function.
  const { embedding_function: named } = configuration as { embedding_function?: { config: { url: string } } };
  if (!named) throw new Error(`${name} names no embedding server: is the service port of ingestor on?`);
  const embeddingFunction = HuggingfaceServerEmbeddingFunction.buildFromConfig(named.config);
  return client.getCollection({ name, embeddingFunction });
}

/** The file, its page or line if it has them, and the headings above the passage. */
function place(metadata: Metadata): string {
  const page = typeof metadata.page === "number" ? `, page ${metadata.page + 1}` : "";
  const line = metadata.start_line ? `:${metadata.start_line}` : page;
  return `${metadata.source}${line} ${metadata.heading_path ?? ""}`.trimEnd();
}

const docs = await open("docs");
const found = await docs.query({ queryTexts: [question], nResults: 5 });
found.rows()[0].forEach(({ document, metadata }, at) => {
  if (document && metadata) console.log(`[${at + 1}] ${place(metadata)}\n${document}\n`); // null: just removed
});
