// memlake: tells opencode what was remembered, and keeps what it did. Written by `memlake hook install`; not to be edited.
import { spawn } from "node:child_process"
import { mkdtempSync, openSync, closeSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const PROGRAM = ["memlake"]
const SECONDS = 10

// A file and not a pipe, and a group of its own: the event is read to its end even if opencode ends before.
function start(event, given, stdout) {
  const folder = mkdtempSync(join(tmpdir(), "memlake-"))
  let input
  try {
    writeFileSync(join(folder, "event.json"), JSON.stringify(given), { mode: 0o600 })
    input = openSync(join(folder, "event.json"), "r")
    const [program, ...rest] = [...PROGRAM, "hook", event, "--client", "opencode"]
    return spawn(program, rest, { cwd: given.cwd, stdio: [input, stdout, "ignore"], detached: true })
  } finally {
    if (input !== undefined) closeSync(input)
    rmSync(folder, { recursive: true, force: true })
  }
}

function send(event, given) {
  try {
    const child = start(event, given, "ignore")
    child.on("error", () => {})
    child.unref()
  } catch {}
}

function ask(event, given) {
  return new Promise((resolve) => {
    const none = setTimeout(() => resolve(""), SECONDS * 1000)
    const answer = (text) => (clearTimeout(none), resolve(text))
    try {
      const child = start(event, given, "pipe")
      let out = ""
      child.stdout.setEncoding("utf8").on("data", (data) => (out += data))
      child.on("error", () => answer(""))
      child.on("close", () => {
        try {
          answer(String(JSON.parse(out).additionalContext ?? ""))
        } catch {
          answer("")
        }
      })
    } catch {
      answer("")
    }
  })
}

export const Memlake = async ({ directory }) => {
  const sessions = new Map() // id -> { parent, told, source, said }
  const find = (id) => sessions.get(id) ?? (sessions.set(id, { source: "startup" }), sessions.get(id))
  const give = (id, more) => ({ session_id: id, cwd: directory, ...more })

  return {
    event: async ({ event }) => {
      const id = event.properties?.sessionID ?? event.properties?.info?.id
      if (!id) return
      const session = find(id)
      if (event.type === "session.created") session.parent = event.properties.info?.parentID
      else if (event.type === "session.compacted") Object.assign(session, { told: false, source: "compact" })
      else if (event.type === "session.idle" && session.said) {
        const own = session.parent ? { session_id: session.parent, agent_id: id } : {}
        send(session.parent ? "subagent-stop" : "stop", give(id, { ...own, last_assistant_message: session.said }))
        session.said = ""
      } else if (event.type === "session.deleted") {
        if (!session.parent && session.told) send("session-end", give(id, { reason: "deleted" }))
        sessions.delete(id)
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const session = find(sessionID)
      const texts = []
      if (!session.told) {
        session.told = true
        const own = session.parent ? { session_id: session.parent, agent_id: sessionID } : { source: session.source }
        texts.push(await ask(session.parent ? "subagent-start" : "session-start", give(sessionID, own)))
      }
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      if (!session.parent && typed.length) texts.push(await ask("prompt", give(sessionID, { prompt: typed.join("\n") })))
      texts.filter(Boolean).forEach((text, number) => {
        const id = `prt_${message.id.slice(4)}memlake${number}`
        parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
      })
    },
    "experimental.text.complete": async ({ sessionID }, { text }) => {
      if (text.trim()) find(sessionID).said = text
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      if (!find(sessionID).parent) await ask("pre-compact", give(sessionID, { last_assistant_message: find(sessionID).said }))
    },
    dispose: async () => {
      for (const [id, session] of sessions) if (!session.parent && session.told) send("session-end", give(id, { reason: "exit" }))
    },
  }
}
