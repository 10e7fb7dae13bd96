/** What the page knows of the predictor: loaded once it is there, and again when the server is back. */
import { Refused, Unreachable, getJson } from '../api/client';
import type { ExampleRequest, Health, Kind, ServerFigures } from '../api/types';
import { connection } from '../connection/connection';
import { fieldsOf, type Document, type Field } from '../inputs/fields';
import { files } from '../output-value/origin';

const PAUSE = 1000;

export interface Model {
  fields: Record<Kind, Field[]>;
  trains: boolean;
  joins: boolean;
  examples: ExampleRequest[];
}

export type Loaded =
  | { state: 'ready'; model: Model }
  | { state: 'starting' | 'failed' | 'closed'; logs: string };

/** Yield what there is, until the model is ready or cannot become so. */
export async function* load(): AsyncGenerator<Loaded> {
  for (;;) {
    try {
      yield { state: 'ready', model: await modelOf() };
      return;
    } catch (error) {
      if (error instanceof Refused && error.status !== 503) {
        yield { state: 'closed', logs: error.message };
        return;
      }
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    }
    yield* waiting();
    await pause();
  }
}

async function* waiting(): AsyncGenerator<Loaded> {
  try {
    const { status, setup } = await getJson<Health>('health-check');
    const hasFailed = ['SETUP_FAILED', 'DEFUNCT'].includes(status);
    yield { state: hasFailed ? 'failed' : 'starting', logs: setup?.logs ?? '' };
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    await connection.untilUp();
  }
}

async function modelOf(): Promise<Model> {
  const document = await getJson<Document>('openapi.json');
  files.origin = originOf((await getJson<ServerFigures>('playground/server.json')).files);
  const schemas = document.components?.schemas ?? {};
  return {
    fields: { predictions: fieldsOf(document, 'Input'), trainings: fieldsOf(document, 'TrainingInput') },
    trains: schemas.TrainingInput !== undefined,
    joins: schemas.Output?.['x-cog-array-display'] === 'concatenate',
    examples: await examples(),
  };
}

/** Return an origin as browsers write it, so without the port that is meant anyway. */
function originOf(place: string | null): string | null {
  return place !== null && URL.canParse(place) ? new URL(place).origin : null;
}

async function examples(): Promise<ExampleRequest[]> {
  try {
    return await getJson<ExampleRequest[]>('playground/examples.json');
  } catch (error) {
    if (error instanceof Refused) return []; // the file is wrong: the form does without
    throw error;
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE));
}
